#include "link/ucx/context.hpp"

#include "link/ucx/check.hpp"
#include "link/ucx/library.hpp"

namespace partita::link::ucx {

Context::Context() {
  try {
    start();
  } catch (...) {
    stop();
    throw;
  }
}

Context::~Context() {
  stop();
}

void Context::start() {
  ucp_params_t context_params{};
  context_params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  context_params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM;
  context_params.name = "partita";
  // The oldest version that will do, not the headers': the library loaded may be older than these.
  PARTITA_UCX(
      ucp_init_version(oldest_version.major_number, oldest_version.minor_number, &context_params, nullptr, &context_));

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  PARTITA_UCX(ucp_worker_create(context_, &worker_params, &worker_));

  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  PARTITA_UCX(ucp_context_query(context_, &attributes));
  memory_types_ = attributes.memory_types;

  ucp_address_t* address = nullptr;
  std::size_t size_bytes = 0;
  PARTITA_UCX(ucp_worker_get_address(worker_, &address, &size_bytes));
  const auto* first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + size_bytes);
  ucp_worker_release_address(worker_, address);
}

void Context::stop() noexcept {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace partita::link::ucx
