#include "two_sided/offer_record.hpp"

#include <algorithm>
#include <cstring>

#include "core/wire.hpp"

namespace partita {

OfferRecord::Bytes OfferRecord::written(const OfferMark& mark) const {
  wire::Writer message;
  message.put(mark).put(number).put(sender).put(size_bytes);
  memory::put_host_address(message, slot);
  message.put(gpu_memory.has_value());
  if (gpu_memory) memory::put_export(message, {*gpu_memory});
  const wire::Bytes record = message.take();
  Bytes padded{};
  if (record.size() > padded.size()) throw Error(ErrorClass::internal, "an offer takes {} bytes", record.size());
  std::ranges::copy(record, padded.begin());
  return padded;
}

bool OfferRecord::is_one(std::span<const std::byte> message, const OfferMark& mark) {
  return message.size() == bytes && std::memcmp(message.data(), mark.data(), sizeof mark) == 0;
}

OfferRecord OfferRecord::read(std::span<const std::byte> message) {
  wire::Reader reader(message);
  OfferRecord record;
  reader.get<OfferMark>();
  record.number = reader.get<std::uint64_t>();
  record.sender = reader.get<int>();
  record.size_bytes = reader.get<std::int64_t>();
  record.slot = memory::read_host_address(reader);
  if (reader.get_bool()) record.gpu_memory = memory::get_export(reader).front();
  const auto& piece = record.gpu_memory;
  const bool fits = !piece || (piece->way != memory::DevicePiece::Way::same_process &&
                               piece->size_bytes == static_cast<std::uint64_t>(record.size_bytes));
  if (record.size_bytes <= static_cast<std::int64_t>(bytes) || !fits) {
    throw wire::malformed("offers {} bytes of GPU memory that is not named as such", record.size_bytes);
  }
  return record;
}

}  // namespace partita
