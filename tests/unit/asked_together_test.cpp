// Requests of the MPI's that are asked for together: each answer reaches whose it is, once, and many cost few calls.
#include "core/asked_together.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/native.hpp"
#include "dropin/request_key.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

/// Values that are no requests of the MPI's, which is not asked.
MPI_Request handle(int i) {
  return dropin::handle_of(static_cast<std::uintptr_t>(i) + 1000);
}

class Asked final : public AskedTogether::Member {
 public:
  Asked(AskedTogether& together, int number) : number(number) { EXPECT_TRUE(together.add(*this, handle(number))); }

  const int number;
  int answers = 0;
  int code = -1;
  MPI_Request left = handle(-1);
  int tag = -1;
  bool is_let_go = false;
  bool is_cancelled = false;
  std::function<void()> in_handler = [] {};  ///< of the program's, as it is cancelled

 private:
  void answered(MPI_Request request, int error, const MPI_Status& status) noexcept override {
    ++answers;
    code = error;
    left = request;
    tag = status.MPI_TAG;
  }
  void let_go() noexcept override {
    is_let_go = true;
    in_handler();
  }
  void cancel_if_wanted() noexcept override {
    is_cancelled = true;
    in_handler();
  }
};

/// What stands in for the MPI: it knows which requests are complete.
class FakeMpi : public testing::Test {
 protected:
  FakeMpi() : real_(native::Testany) {
    the_one = this;
    native::Testany = [](int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
      return the_one->answer(count, requests, index, flag, status);
    };
  }
  ~FakeMpi() override { native::Testany = real_; }

  void make(int count) {
    together = std::make_unique<AskedTogether>(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) all.push_back(std::make_unique<Asked>(*together, i));
    complete.assign(all.size(), false);
    codes.assign(all.size(), MPI_SUCCESS);
  }
  Asked& at(int i) { return *all[static_cast<std::size_t>(i)]; }
  void completes(int i, int code = MPI_SUCCESS) {
    complete[static_cast<std::size_t>(i)] = true;
    codes[static_cast<std::size_t>(i)] = code;
  }
  void expect_answered_once(const std::vector<int>& numbers) {
    for (const auto& each : all)
      EXPECT_EQ(each->answers, std::ranges::count(numbers, each->number)) << "request " << each->number;
  }

  std::vector<std::unique_ptr<Asked>> all;
  std::unique_ptr<AskedTogether> together;
  std::vector<bool> complete;
  std::vector<int> codes;
  int calls = 0;
  bool frees_all_that_failed = false;  ///< as Open MPI does
  bool handler_takes_it_for_success = false;
  bool names_nothing = false;
  std::function<void()> in_handler = [] {};  ///< of the program's, as the MPI tells of an error
  std::vector<MPI_Request> persistent;

 private:
  static int number_of(MPI_Request request) { return static_cast<int>(dropin::key_of(request)) - 1000; }
  bool is_complete(MPI_Request request) const {
    return request != MPI_REQUEST_NULL && complete[static_cast<std::size_t>(number_of(request))];
  }
  int code_of(MPI_Request request) const { return codes[static_cast<std::size_t>(number_of(request))]; }

  int answer(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
    ++calls;
    *index = MPI_UNDEFINED;
    *flag = 0;
    if (names_nothing) return MPI_ERR_OTHER;
    const auto found = std::find_if(requests, requests + count, [this](MPI_Request r) { return is_complete(r); });
    if (found == requests + count) return MPI_SUCCESS;
    *index = static_cast<int>(found - requests);
    *flag = 1;
    status->MPI_TAG = number_of(*found);
    const int code = code_of(*found);
    if (std::ranges::find(persistent, *found) == persistent.end()) *found = MPI_REQUEST_NULL;
    for (int i = 0; code != MPI_SUCCESS && frees_all_that_failed && i < count; ++i) {
      if (is_complete(requests[i]) && code_of(requests[i]) != MPI_SUCCESS) requests[i] = MPI_REQUEST_NULL;
    }
    if (code != MPI_SUCCESS) in_handler();
    return handler_takes_it_for_success ? MPI_SUCCESS : code;
  }

  decltype(native::Testany) real_;
  inline static FakeMpi* the_one = nullptr;
};

using Wanted = AskedTogether::Wanted;

TEST_F(FakeMpi, is_asked_once_while_nothing_is_complete) {
  make(1000);
  together->ask(Wanted::all);
  together->ask(Wanted::one);
  EXPECT_EQ(calls, 2);
  expect_answered_once({});
}

TEST_F(FakeMpi, answers_all_that_are_complete_and_each_once) {
  make(200);
  std::vector<int> expected;
  for (const int i : {0, 1, 2, 17, 80, 81, 150, 198, 199}) {
    completes(i);
    expected.push_back(i);
  }
  together->ask(Wanted::all);
  expect_answered_once(expected);
  for (const int i : expected) {
    EXPECT_EQ(at(i).code, MPI_SUCCESS);
    EXPECT_EQ(at(i).tag, i);
    EXPECT_EQ(at(i).left, MPI_REQUEST_NULL);
  }
  together->ask(Wanted::all);
  expect_answered_once(expected);
}

TEST_F(FakeMpi, answers_one_where_one_is_wanted) {
  make(100);
  for (const int i : {30, 31, 90}) completes(i);
  together->ask(Wanted::one);
  expect_answered_once({30});
  EXPECT_EQ(calls, 1);
  together->ask(Wanted::one);
  expect_answered_once({30, 31});
}

TEST_F(FakeMpi, answers_random_sets_in_random_rounds) {
  Random random(1);
  make(500);
  const std::vector<int> order = random.permutation(500);
  std::vector<int> so_far;
  for (std::size_t done = 0; done < order.size();) {
    const std::size_t now = std::min(order.size() - done, static_cast<std::size_t>(random.integer(1, 60)));
    for (std::size_t i = done; i < done + now; ++i) {
      completes(order[i]);
      so_far.push_back(order[i]);
    }
    done += now;
    together->ask(Wanted::all);
    expect_answered_once(so_far);
  }
}

/// The MPI looks through all that it is given, each time.
TEST_F(FakeMpi, is_asked_about_once_for_each_of_many_answers) {
  make(1000);
  for (int i = 0; i < 1000; ++i) completes(i);
  together->ask(Wanted::all);
  EXPECT_LE(calls, 1100);
}

TEST_F(FakeMpi, leaves_a_persistent_request_as_it_is) {
  make(3);
  persistent = {handle(1)};
  completes(1);
  together->ask(Wanted::all);
  EXPECT_EQ(at(1).left, handle(1));
  together->ask(Wanted::all);
  expect_answered_once({1});
}

TEST_F(FakeMpi, tells_each_its_own_error) {
  make(40);
  completes(3, MPI_ERR_TRUNCATE);
  completes(4);
  completes(30, MPI_ERR_TAG);
  together->ask(Wanted::all);
  expect_answered_once({3, 4, 30});
  EXPECT_EQ(at(3).code, MPI_ERR_TRUNCATE);
  EXPECT_EQ(at(4).code, MPI_SUCCESS);
  EXPECT_EQ(at(30).code, MPI_ERR_TAG);
}

/// The MPI does not say what their messages were.
TEST_F(FakeMpi, tells_those_that_it_has_freed_besides) {
  frees_all_that_failed = true;
  make(40);
  completes(3, MPI_ERR_TRUNCATE);
  completes(5, MPI_ERR_TRUNCATE);
  completes(6);
  together->ask(Wanted::all);
  expect_answered_once({3, 5, 6});
  EXPECT_EQ(at(3).tag, 3);
  EXPECT_EQ(at(5).code, MPI_ERR_TRUNCATE);
  EXPECT_EQ(at(5).tag, MPI_ANY_TAG);
  EXPECT_EQ(at(6).code, MPI_SUCCESS);
}

TEST_F(FakeMpi, tells_those_that_it_has_freed_where_an_error_handler_makes_that_success) {
  frees_all_that_failed = true;
  handler_takes_it_for_success = true;
  make(40);
  completes(3, MPI_ERR_TRUNCATE);
  completes(25, MPI_ERR_TRUNCATE);
  together->ask(Wanted::one);
  expect_answered_once({3, 25});
  EXPECT_EQ(at(25).code, MPI_SUCCESS);
}

TEST_F(FakeMpi, lets_go_of_all_where_an_error_names_none) {
  names_nothing = true;
  make(3);
  together->ask(Wanted::all);
  expect_answered_once({});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at(i).is_let_go);
  EXPECT_EQ(together->count(), 0U);
}

TEST_F(FakeMpi, is_not_asked_for_what_has_left) {
  make(50);
  for (int i = 0; i < 50; ++i) completes(i);
  std::vector<int> others;
  for (int i = 0; i < 50; ++i) {
    if (i % 3 == 0) {
      EXPECT_EQ(together->remove(at(i)), handle(i));
    } else {
      others.push_back(i);
    }
  }
  together->ask(Wanted::all);
  expect_answered_once(others);
  EXPECT_FALSE(at(0).is_let_go);
}

TEST_F(FakeMpi, lets_go_of_the_rest_in_the_end) {
  make(3);
  completes(1);
  together->ask(Wanted::all);
  together = nullptr;
  EXPECT_TRUE(at(0).is_let_go);
  EXPECT_FALSE(at(1).is_let_go);
  EXPECT_TRUE(at(2).is_let_go);
}

TEST_F(FakeMpi, cancels_before_it_asks_again) {
  make(3);
  together->ask(Wanted::all);
  EXPECT_FALSE(at(2).is_cancelled);
  together->cancel_some();
  together->ask(Wanted::all);
  EXPECT_TRUE(at(2).is_cancelled);
}

/// With what the MPI has left of their requests; none is answered.
TEST_F(FakeMpi, lets_some_leave_in_an_error_handler) {
  make(40);
  completes(3, MPI_ERR_TRUNCATE);
  completes(5);
  in_handler = [this] {
    EXPECT_TRUE(together->is_asking());
    EXPECT_EQ(together->remove(at(3)), MPI_REQUEST_NULL);
    EXPECT_EQ(together->remove(at(20)), handle(20));
  };
  together->ask(Wanted::all);
  EXPECT_FALSE(together->is_asking());
  expect_answered_once({5});
  completes(20);
  completes(21);
  together->ask(Wanted::all);
  expect_answered_once({5, 21});
}

TEST_F(FakeMpi, lets_some_leave_while_it_cancels) {
  make(3);
  at(0).in_handler = [this] { together->remove(at(1)); };
  together->cancel_some();
  together->ask(Wanted::all);
  EXPECT_FALSE(at(1).is_cancelled);
  EXPECT_TRUE(at(2).is_cancelled);
}

TEST_F(FakeMpi, lets_some_leave_while_it_lets_go) {
  make(3);
  at(0).in_handler = [this] { together->remove(at(1)); };
  names_nothing = true;
  together->ask(Wanted::all);
  EXPECT_FALSE(at(1).is_let_go);
  EXPECT_TRUE(at(2).is_let_go);
}

TEST_F(FakeMpi, is_of_one_thread) {
  make(1);
  EXPECT_TRUE(together->is_of_this_thread());
  std::thread([this] { EXPECT_FALSE(together->is_of_this_thread()); }).join();
}

TEST_F(FakeMpi, has_no_room_for_more_than_it_was_made_for) {
  make(2);
  AskedTogether small(1);
  const Asked first(small, 7);
  struct Refused final : AskedTogether::Member {
    void answered(MPI_Request, int, const MPI_Status&) noexcept override {}
    void let_go() noexcept override {}
    void cancel_if_wanted() noexcept override {}
  } refused;
  EXPECT_FALSE(small.add(refused, handle(8)));
  EXPECT_EQ(small.count(), 1U);
  small.remove(first);
}

}  // namespace
}  // namespace partita::test
