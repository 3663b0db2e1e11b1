#include "partitioned/matcher.hpp"

#include "core/log.hpp"
#include "partitioned/aggregation.hpp"
#include "partitioned/runtime.hpp"

namespace partita {
namespace {

enum MessageKind : std::uint8_t { offer_kind = 1, answer_kind = 2, bye_kind = 3, ask_kind = 4 };

std::string joined(const std::string& list, const std::string& item) {
  return list.empty() || item.empty() ? list + item : list + "; " + item;
}

}  // namespace

Matcher::Matcher(Runtime& runtime, Mailbox& mailbox) : runtime_(runtime), mailbox_(mailbox) {
  mailbox.on(offer_kind, [this](int from, wire::Reader message) { take_offer(from, message); });
  mailbox.on(ask_kind, [this](int from, wire::Reader message) { take_ask(from, message); });
  mailbox.on(answer_kind, [this](int from, wire::Reader message) { take_answer(from, message); });
  mailbox.on(bye_kind, [this](int from, wire::Reader message) { take_bye(from, message); });
}

std::uint64_t Matcher::keep(std::unique_ptr<Request> request) {
  const std::uint64_t id = next_id_++;
  request->matching.id = id;
  runtime_.trace.name(id, fmt::format("{} {} rank {}, tag {}", request->side() == Side::send ? "send" : "receive",
                                      request->side() == Side::send ? "to" : "from", request->arguments().peer,
                                      request->arguments().tag));
  requests_.emplace(id, std::move(request));
  return id;
}

Request* Matcher::find(std::uint64_t id) {
  if (const auto live = requests_.find(id); live != requests_.end()) return live->second.get();
  if (const auto retired = retired_.find(id); retired != retired_.end()) return retired->second.get();
  return nullptr;
}

std::size_t Matcher::free_all() {
  std::size_t freed = 0;
  const auto exclusive = runtime_.progress.exclusive();
  for (; !requests_.empty(); ++freed) {
    Request& request = *requests_.begin()->second;
    request.abandon();
    free(request);
  }
  return freed;
}

// ---- sender ------------------------------------------------------------------------------------------------

void Matcher::add(std::unique_ptr<SendRequest> request) {
  const std::lock_guard lock(mutex_);
  SendRequest& added = *request;
  keep(std::move(request));
  if (added.arguments().peer >= 0) post_offer(added);
}

void Matcher::Unanswered::open(link::Link& link, const link::Endpoint& endpoint) {
  const std::string name(link.name());
  auto made = link.sender(endpoint);
  if (auto* sender = std::get_if<std::unique_ptr<link::Sender>>(&made)) {
    offer.links[name] = {Availability::offered, (*sender)->offer(), {}};
    senders[name] = std::move(*sender);
  } else {
    offer.links[name] = {Availability::refused, {}, std::get<link::Refusal>(made).reason};
  }
}

void Matcher::post_offer(SendRequest& request) {
  const auto& arguments = request.arguments();
  Unanswered& unanswered = unanswered_[request.matching.id];
  unanswered.offer = {runtime_.world.rank(), request.matching.id, request.shape(), arguments.link, {}};
  for (const auto& link : runtime_.links) {
    const std::string name(link->name());
    if (arguments.link != "auto" && arguments.link != name) {
      unanswered.offer.links[name].reason = fmt::format("link {} is demanded", arguments.link);
    } else if (arguments.link == "auto" && link->costly_to_start() && !unanswered.senders.empty()) {
      unanswered.offer.links[name].availability = Availability::held_back;
    } else {
      unanswered.open(*link, request.endpoint());
    }
  }
  runtime_.progress.want();  // until the answer
  mailbox_.post(arguments.peer, write_offer(request.matching.key, unanswered.offer));
}

wire::Bytes Matcher::write_offer(const MatchKey& key, const Offer& offer) {
  wire::Writer message;
  message.put(offer_kind).put(key).put(offer.sender_id).put(offer.shape).put_string(offer.wished_link);
  message.put(static_cast<std::uint64_t>(offer.links.size()));
  for (const auto& [name, link] : offer.links) {
    message.put_string(name).put(link.availability).put_bytes(link.bytes).put_string(link.reason);
  }
  return message.take();
}

Matcher::Offer Matcher::read_offer(int from, wire::Reader& message) {
  Offer offer;
  offer.from = from;
  offer.sender_id = message.get<std::uint64_t>();
  offer.shape = message.get<SideShape>();
  offer.wished_link = message.get_string();
  const auto count = message.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = message.get_string();
    LinkOffer link;
    link.availability = message.get<Availability>();
    link.bytes = message.get_bytes();
    link.reason = message.get_string();
    offer.links.emplace(name, std::move(link));
  }
  return offer;
}

void Matcher::take_ask(int from, wire::Reader message) {
  const auto sender_id = message.get<std::uint64_t>();
  const std::string wanted = message.get_string();

  const std::lock_guard lock(mutex_);
  const Request& request = *find(sender_id);  // at the latest the answer ends it
  Unanswered& unanswered = unanswered_.at(sender_id);
  for (const auto& link : runtime_.links) {
    if (link->name() != wanted) continue;
    if (retired_.contains(sender_id)) {
      unanswered.offer.links[wanted] = {Availability::refused, {}, "the sender has freed its request"};
    } else {
      unanswered.open(*link, request.endpoint());
    }
  }
  mailbox_.post(from, write_offer(request.matching.key, unanswered.offer));
}

void Matcher::take_answer(int from, wire::Reader message) {
  const auto sender_id = message.get<std::uint64_t>();
  const auto receiver_id = message.get<std::uint64_t>();
  const bool chosen = message.get<bool>();

  const std::lock_guard lock(mutex_);
  runtime_.progress.unwant();
  Unanswered answered = std::move(unanswered_[sender_id]);
  unanswered_.erase(sender_id);
  auto* request = dynamic_cast<SendRequest*>(find(sender_id));
  if (request == nullptr) return;
  request->matching.peer_id = receiver_id;

  if (!chosen) {
    const auto error_class = message.get<ErrorClass>();
    request->fail(Error(error_class, "{}", message.get_string()));
    retired_.erase(sender_id);
    return;
  }
  const auto plan = message.get<link::Plan>();
  const std::string link = message.get_string();
  std::string reason = message.get_string();
  const wire::Bytes answer = message.get_bytes();
  if (retired_.contains(sender_id)) {
    // Freed before it was matched: the link's half stays until the receiver says bye.
    post_bye(from, receiver_id);
    unanswered_[sender_id] = std::move(answered);
    return;
  }
  try {
    request->connect(plan, std::move(answered.senders.at(link)), link, std::move(reason), answer);
  } catch (const Error& error) {
    request->fail(error);
  }
}

// ---- receiver ----------------------------------------------------------------------------------------------

void Matcher::add(std::unique_ptr<RecvRequest> request) {
  const std::lock_guard lock(mutex_);
  RecvRequest& added = *request;
  keep(std::move(request));
  if (added.arguments().peer < 0) return;
  if (auto waiting = offers_.extract(added.matching.key); !waiting.empty()) {
    settle(added, waiting.mapped());
    return;
  }
  await_offer(added);
}

void Matcher::await_offer(RecvRequest& request) {
  runtime_.progress.want();
  receives_.emplace(request.matching.key, &request);
}

void Matcher::take_offer(int from, wire::Reader message) {
  const auto key = message.get<MatchKey>();
  Offer offer = read_offer(from, message);

  const std::lock_guard lock(mutex_);
  if (dropped_.erase(key) > 0) {
    post_failure(
        from, offer.sender_id, 0,
        Error(ErrorClass::request, "rank {} freed the matching receive before it was matched", runtime_.world.rank()));
  } else if (const auto waiting = receives_.extract(key); !waiting.empty()) {
    runtime_.progress.unwant();
    settle(*waiting.mapped(), offer);
  } else {
    offers_.emplace(key, std::move(offer));
  }
}

void Matcher::settle(RecvRequest& request, const Offer& offer) {
  try {
    auto outcome = choose(request, offer);
    if (const auto* wanted = std::get_if<Wanted>(&outcome)) {
      await_offer(request);
      mailbox_.post(offer.from, wire::Writer().put(ask_kind).put(offer.sender_id).put_string(wanted->link).take());
      return;
    }
    Choice& choice = std::get<Choice>(outcome);
    request.matching.peer_id = offer.sender_id;
    wire::Writer message;
    message.put(answer_kind).put(offer.sender_id).put(request.matching.id).put(true);
    message.put(choice.plan).put_string(choice.link).put_string(choice.reason).put_bytes(choice.receiver->answer());
    request.connect(choice.plan, std::move(choice.receiver), choice.link, choice.reason);
    mailbox_.post(offer.from, message.take());
  } catch (const Error& error) {
    request.fail(error);
    request.matching.peer_id = 0;
    post_failure(offer.from, offer.sender_id, 0, error);
  }
}

std::variant<Matcher::Choice, Matcher::Wanted> Matcher::choose(const RecvRequest& request, const Offer& offer) {
  const SideShape mine = request.shape();
  if (mine.total_bytes != offer.shape.total_bytes) {
    throw Error(ErrorClass::truncate,
                "the sizes of a partitioned send and its receive differ: rank {} sends {} bytes in {} partitions, rank "
                "{} receives {} "
                "bytes in {} partitions (tag {}); expected are equal sizes",
                offer.from, offer.shape.total_bytes, offer.shape.partitions, runtime_.world.rank(), mine.total_bytes,
                mine.partitions, request.arguments().tag);
  }
  const std::string& wish = request.arguments().link;
  std::string refusals;
  for (const auto& link : runtime_.links) {
    const std::string name(link->name());
    const auto offered = offer.links.find(name);
    if (wish != "auto" && wish != name) {
      refusals = joined(refusals, fmt::format("{}: rank {} demands link {}", name, runtime_.world.rank(), wish));
    } else if (offered == offer.links.end()) {
      refusals = joined(refusals, fmt::format("{}: rank {} is built without it", name, offer.from));
    } else if (offered->second.availability == Availability::held_back) {
      return Wanted{name};
    } else if (offered->second.availability == Availability::refused) {
      refusals = joined(refusals, fmt::format("{}: {}", name, offered->second.reason));
    } else {
      const link::Plan plan(offer.shape.partitions, mine.partitions,
                            choose_transport_partitions(offer.shape, mine, link->transfer_bytes(request.endpoint())),
                            mine.total_bytes);
      auto made = link->receiver(request.endpoint(), plan, offered->second.bytes);
      if (auto* receiver = std::get_if<std::unique_ptr<link::Receiver>>(&made)) {
        const std::string reason = link->describe(**receiver);
        return Choice{plan, std::move(*receiver), name, joined(reason, refusals)};
      }
      refusals = joined(refusals, fmt::format("{}: {}", name, std::get<link::Refusal>(made).reason));
    }
  }
  throw Error(ErrorClass::other, "no link can move a partitioned send from rank {} to rank {} (tag {}): {}", offer.from,
              runtime_.world.rank(), request.arguments().tag, refusals);
}

void Matcher::post_failure(int to, std::uint64_t sender_id, std::uint64_t receiver_id, const Error& error) {
  wire::Writer message;
  message.put(answer_kind)
      .put(sender_id)
      .put(receiver_id)
      .put(false)
      .put(error.error_class())
      .put_string(error.sentence());
  mailbox_.post(to, message.take());
}

// ---- freeing -----------------------------------------------------------------------------------------------

void Matcher::post_bye(int to, std::uint64_t id) {
  mailbox_.post(to, wire::Writer().put(bye_kind).put(id).take());
}

void Matcher::free(Request& request) {
  if (auto* send = dynamic_cast<SendRequest*>(&request)) runtime_.deferred.remove(*send);
  const auto exclusive = runtime_.progress.exclusive();
  const std::lock_guard lock(mutex_);
  auto freed = requests_.extract(request.matching.id);
  const bool unanswered = unanswered_.contains(request.matching.id);

  if (request.side() == Side::recv && receives_.erase(request.matching.key) > 0) {
    dropped_.insert(request.matching.key);
    runtime_.progress.unwant();
  } else if (request.matching.peer_id != 0) {
    post_bye(request.arguments().peer, request.matching.peer_id);
    if (!request.matching.peer_freed) retired_.insert(std::move(freed));
  } else if (unanswered) {
    retired_.insert(std::move(freed));
  }
}

void Matcher::take_bye(int, wire::Reader message) {
  const auto id = message.get<std::uint64_t>();
  const std::lock_guard lock(mutex_);
  unanswered_.erase(id);
  if (retired_.erase(id) > 0) return;
  if (Request* request = find(id)) request->matching.peer_freed = true;
}

}  // namespace partita
