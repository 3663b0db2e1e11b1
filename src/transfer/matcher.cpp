#include "transfer/matcher.hpp"

#include <new>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"
#include "core/log.hpp"
#include "transfer/link_choice.hpp"

namespace partita {
namespace {

/// What a half moves, in sentences. The program knows no partitions of a leg that has a purpose, and no tag.
std::string described(const std::string& purpose, const SideShape& shape) {
  if (!purpose.empty()) return fmt::format("{} bytes", shape.total_bytes());
  return fmt::format("{} bytes in {} partitions", shape.total_bytes(), shape.partitions());
}

/// The half that looked for its peer with it.
std::string described(const std::string& purpose, int tag, const SideShape& shape) {
  return fmt::format("{}, {}", purpose.empty() ? fmt::format("tag {}", tag) : purpose, described(purpose, shape));
}

/// Calls `take` with `message`; where memory runs out, `take_head` with the message from its start, and why.
template <class Take, class TakeHead>
void or_its_head(const wire::Reader& message, Take take, TakeHead take_head) {
  try {
    take(message);
  } catch (const std::bad_alloc&) {
    take_head(message, current_error());
  }
}

}  // namespace

Matcher::Matcher(const Services& services, LinkReport& link_report)
    : services_(services), mail_(services.mail), link_report_(link_report) {
  const auto on = [this](SetupKind kind, auto take) { mail_.on(static_cast<std::uint8_t>(kind), std::move(take)); };
  on(SetupKind::offer, [this](int from, const wire::Reader& message) {
    or_its_head(
        message, [&](wire::Reader whole) { take_offer(from, read_offer(whole)); },
        [&](wire::Reader head, const Error& why) { refuse_offer(from, read_head_of_offer(head), why); });
  });
  on(SetupKind::ask, [this](int from, wire::Reader message) { take_ask(from, read_ask(message)); });
  on(SetupKind::answer, [this](int from, const wire::Reader& message) {
    Answer answer;
    std::optional<Error> unread;
    or_its_head(
        message, [&](wire::Reader whole) { answer = read_answer(whole); },
        [&](wire::Reader head, const Error& why) {
          answer = read_head_of_answer(head);
          unread = why;
        });
    take_answer(from, std::move(answer), unread ? &*unread : nullptr);
  });
  on(SetupKind::failure, [this](int from, const wire::Reader& message) {
    Failure failure;
    or_its_head(
        message, [&](wire::Reader whole) { failure = read_failure(whole); },
        [&](wire::Reader head, const Error&) {
          failure = read_head_of_failure(head);
          failure.rank = -1;
          failure.verdict = {ErrorClass::no_mem, "out of memory"};  // so short that it takes none
        });
    take_failure(from, std::move(failure));
  });
  on(SetupKind::bye, [this](int from, wire::Reader message) { take_bye(from, read_bye(message)); });
}

void Matcher::name(Half& half) {
  half.id = next_id_++;
  if (services_.trace.enabled()) {
    const bool sends = half.side() == Side::send;
    services_.trace.name(half.id, fmt::format("{} {} rank {}, tag {}", sends ? "send" : "receive",
                                              sends ? "to" : "from", half.peer(), half.terms().tag));
  }
  live_.emplace(half.id, &half);
}

Half* Matcher::find(std::uint64_t id) {
  if (const auto live = live_.find(id); live != live_.end()) return live->second;
  if (const auto retired = retired_.find(id); retired != retired_.end()) return retired->second.get();
  return nullptr;
}

bool Matcher::is_between(std::uint64_t id, Side side, int peer) {
  const Half* half = find(id);
  return half != nullptr && half->side() == side && half->peer() == peer;
}

void Matcher::draw_place(Half& half) {
  const HalfTerms& terms = half.terms();
  const bool send = terms.side == Side::send;
  half.key = {terms.space,
              terms.communicator->id,
              send ? services_.rank : terms.peer,
              send ? terms.peer : services_.rank,
              terms.tag,
              0,
              terms.places != nullptr ? terms.places->number : 0};
  half.key.ordinal = terms.places != nullptr
                         ? terms.places->ordinals.draw(send, terms.peer, terms.tag)
                         : terms.communicator->draw_ordinal(terms.space, send, terms.peer, terms.tag);
}

void Matcher::give_place_back(const Half& half) {
  const HalfTerms& terms = half.terms();
  if (terms.places != nullptr) {
    terms.places->ordinals.give_back(terms.side == Side::send, terms.peer, terms.tag, half.key.ordinal);
    return;
  }
  terms.communicator->give_back_ordinal(terms.space, terms.side == Side::send, terms.peer, terms.tag, half.key.ordinal);
}

template <class Kind, class Seek>
void Matcher::add_with(Kind& half, Seek seek) {
  const std::lock_guard lock(mutex_);
  const bool seeks = half.peer() >= 0;
  if (seeks) draw_place(half);
  try {
    name(half);
    if (seeks) seek();
  } catch (...) {
    unconnected_.erase(half.id);
    live_.erase(std::exchange(half.id, 0));
    if (seeks) give_place_back(half);
    throw;
  }
}

void Matcher::add(Outgoing& half) {
  add_with(half, [&] { post_offer(half); });
}

// ---- receiver ----------------------------------------------------------------------------------------------

void Matcher::add(Incoming& half) {
  add_with(half, [&] {
    if (const auto waiting = offers_.extract(half.key); !waiting.empty()) {
      settle(half, waiting.mapped());
    } else if (const auto refused = refused_.extract(half.key); !refused.empty()) {
      half.fail(refused.mapped());
    } else {
      await_offer(half);
    }
  });
}

void Matcher::await_offer(Incoming& half) {
  receives_.emplace(half.key, &half);
  services_.progress.want();
}

void Matcher::take_offer(int from, Offer offer) {
  const MatchKey key = offer.key;
  if (key.sender != from || key.receiver != services_.rank) {
    throw wire::malformed("of rank {} offers a send from rank {} to rank {}", from, key.sender, key.receiver);
  }

  const std::lock_guard lock(mutex_);
  if (take_drop(offer)) {
    return;
  } else if (const auto waiting = receives_.extract(key); !waiting.empty()) {
    services_.progress.unwant();
    settle(*waiting.mapped(), offer);
  } else {
    offers_.emplace(key, std::move(offer));
  }
}

/// Whether the program has freed the receive before `offer` came for it, which is then answered.
bool Matcher::take_drop(const Offer& offer) {
  const auto dropped = dropped_.find(offer.key);
  if (dropped == dropped_.end()) return false;
  const auto& [shape, purpose] = dropped->second;
  const auto differ = why_purposes_differ(offer, services_.rank, purpose);
  post_failure(offer.key.sender, offer.sender_id, 0,
               differ
                   ? *differ
                   : Error(ErrorClass::request,
                           "the receiver, rank {}, freed its request ({}) before it was matched with this send of "
                           "{}",
                           services_.rank, described(purpose, offer.key.tag, shape), described(purpose, offer.shape)));
  dropped_.erase(dropped);
  services_.progress.unwant();
  return true;
}

/// Neither side waits for an offer that could not be read or kept.
void Matcher::refuse_offer(int from, const Offer& head, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (head.key.sender != from || head.key.receiver != services_.rank) return;
  const Error reason = insist([&] {
    return Error(error.error_class(), "the receiver, rank {}, could not take the offer: {}", services_.rank,
                 error.sentence());
  });
  post_failure(from, head.sender_id, 0, reason);
  if (const auto waiting = receives_.extract(head.key); !waiting.empty()) {
    services_.progress.unwant();
    insist([&] { waiting.mapped()->fail(reason); });
  } else if (dropped_.erase(head.key) > 0) {
    services_.progress.unwant();
  } else {
    insist([&] { refused_.emplace(head.key, reason); });
  }
}

void Matcher::settle(Incoming& half, const Offer& offer) {
  try {
    auto outcome = choose_link(services_, half, offer);
    if (const auto* wanted = std::get_if<WantedLink>(&outcome)) {
      await_offer(half);
      mail_.post(offer.key.sender, write(Ask{offer.sender_id, wanted->link}));
      return;
    }
    half.enclose(offer.enclosed);
    if (std::holds_alternative<NoLink>(outcome)) {
      mail_.post(offer.key.sender, write(Answer{offer.sender_id, half.id, std::nullopt, {}}));
      half.match_empty();
      return;
    }
    LinkChoice& choice = std::get<LinkChoice>(outcome);
    const Answer answer{
        offer.sender_id,
        half.id,
        Answer::Choice{choice.plan.recv(), choice.plan.transport_partitions(), choice.transfers, choice.staged,
                       choice.link, choice.sender_kind, choice.reason, std::move(choice.answer)},
        {}};
    half.connect(choice.plan, choice.wire, std::move(choice.receiver), choice.facts, choice.kind, choice.link,
                 choice.reason);
    link_report_.matched(false, offer.key.sender, choice.link, choice.reason);
    mail_.post(offer.key.sender, write(answer));
    half.peer_id = offer.sender_id;
    half.send_last_word();  // it may have given up before
  } catch (const std::exception&) {
    const Error error = current_error();
    if (receives_.erase(half.key) > 0) services_.progress.unwant();  // it waits for no other offer
    insist([&] { half.fail(error); });
    post_failure(offer.key.sender, offer.sender_id, 0, error);
  }
}

void Matcher::take_failure(int from, Failure failure) {
  const std::lock_guard lock(mutex_);
  Half* const half = find(failure.id);
  if (half == nullptr || half->peer() != from) return;  // freed meanwhile
  half->ending.hear(
      {failure.first_lost, failure.verdict.error_class, {failure.rank, std::move(failure.verdict.sentence)}});
}

void Matcher::post_failure(int to, std::uint64_t sender_id, std::uint64_t receiver_id, const Error& error) {
  insist([&] {
    mail_.post(to, write(Answer{sender_id, receiver_id, std::nullopt, {error.error_class(), error.sentence()}}));
  });
}

std::string Matcher::explain_unmatched(const Half& half) const {
  constexpr int most = 8;
  const MatchKey& mine = half.key;
  const SideShape& shape = half.shape();
  const bool sends = half.side() == Side::send;
  std::string text = fmt::format(
      "not matched yet, rank {} has not {} (or not answered for) the {}: number {} of this tag, {} bytes", half.peer(),
      rules_of(mine.space).sought, sends ? "receive" : "send", mine.ordinal + 1, shape.total_bytes());
  const std::lock_guard lock(mutex_);
  if (sends) {
    const auto found = unconnected_.find(half.id);
    if (found == unconnected_.end()) return text;
    const auto& obstacle = found->second.obstacle;
    if (!obstacle) return text;
    return fmt::format("not connected yet to the receive that it has met: {}", obstacle->found.error.sentence());
  }
  int offers = 0;
  for (const auto& [key, offer] : offers_) {
    if (key.space != mine.space || key.sender != mine.sender) continue;
    if (++offers > most) continue;
    text += fmt::format("{} tag {}, {} bytes in {} partitions, number {} of this tag{}",
                        offers == 1 ? "; what it offers and nobody here receives:" : ";", key.tag,
                        offer.shape.total_bytes(), offer.shape.partitions(), key.ordinal + 1,
                        key.comm_id == mine.comm_id ? "" : ", on another communicator");
  }
  if (offers > most) text += fmt::format("; and {} more", offers - most);
  return offers > 0 ? text : text + "; it offers nothing that is not received here";
}

// ---- freeing -----------------------------------------------------------------------------------------------

void Matcher::post_bye(const Half& half) {
  mail_.post(half.peer(), write(Bye{half.peer_id, half.first_epoch_after_free()}));
}

/// The program has freed `half`, a send's, before it was matched to the receive `peer_id`, which hears of that.
void Matcher::retire_unmatched(Half& half, std::uint64_t peer_id) {
  half.peer_id = peer_id;
  half.ending.say({half.first_epoch_after_free(), ErrorClass::request,
                   Origin{services_.rank, fmt::format("freed its request ({}) before it was matched",
                                                      described(half.terms().purpose, half.key.tag, half.shape()))}});
  half.send_last_word();
  post_bye(half);
}

void Matcher::free(std::shared_ptr<Half> freed) {
  const auto exclusive = services_.progress.exclusive();
  // It goes without the matcher's lock, if now: that gives memory back, while other threads add halves.
  const std::shared_ptr<Half> gone = free_or_retire(std::move(freed));
}

/// Returns what nobody needs any more.
std::shared_ptr<Half> Matcher::free_or_retire(std::shared_ptr<Half> freed) {
  const std::lock_guard lock(mutex_);
  Half& half = *freed;
  const std::uint64_t id = half.id;
  live_.erase(id);
  std::erase(holding_, &half);
  const auto offered = unconnected_.find(id);
  const bool unanswered = offered != unconnected_.end();
  half.release_memory();
  if (unanswered) offered->second.release_memory();

  if (half.side() == Side::recv && receives_.erase(half.key) > 0) {
    // Progress is wanted until its offer is answered.
    insist([&] { dropped_.emplace(half.key, Dropped{half.shape(), half.terms().purpose}); });
    return freed;
  }
  const bool matched = half.peer_id != 0;
  if (matched) insist([&] { post_bye(half); });
  if (matched ? half.peer_freed.load() : !unanswered) return freed;
  insist([&] { retired_.emplace(id, freed); });
  return nullptr;
}

void Matcher::take_bye(int from, const Bye& bye) {
  const std::uint64_t id = bye.id;
  // What goes, goes without the lock: it gives memory back, while other threads add halves.
  decltype(unconnected_)::node_type unanswered;
  decltype(retired_)::node_type retired;
  const std::lock_guard lock(mutex_);
  const Half* named = find(id);
  if (named == nullptr || named->peer() != from) {
    throw wire::malformed("of rank {} frees half {}, which is none of its", from, id);
  }
  unanswered = unconnected_.extract(id);
  retired = retired_.extract(id);
  if (!retired.empty()) return;
  if (Half* half = find(id)) {
    half->ending.hear({bye.first_lost, ErrorClass::request, {}});
    half->peer_freed = true;
    const bool was_obstructed = !unanswered.empty() && unanswered.mapped().obstacle;
    if (was_obstructed) insist([&] { half->fail(half->why_lost()); });
    if (half->terms().of_library) return;
    // Whether kernels go there still only the GPU knows: it is asked once something else needs the place.
    if (!half->release_peer(false)) insist([&] { holding_.push_back(half); });
  }
}

}  // namespace partita
