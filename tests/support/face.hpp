// The two faces of partitioned communication behind one set of names, so that each property is written once:
//   template <class Face> ...  TYPED_TEST_SUITE(Matching, Faces, FaceNames)
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

#if !defined(PARTITEST_STANDARD_ONLY)
#include <partita/partita.h>
#endif

namespace partita::test {

#if !defined(PARTITEST_C_ONLY)
/// The standard names on MPI_Request: the drop-in, or an MPI that has them itself.
struct StandardFace {
  using Request = MPI_Request;
  static constexpr const char* name = "standard";
  static constexpr const char* prefix = "MPI_";
  static Request null() { return MPI_REQUEST_NULL; }

  static int psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag,
                        MPI_Comm comm, MPI_Info info, Request* request) {
    return MPI_Psend_init(buf, partitions, count, type, dest, tag, comm, info, request);
  }
  static int precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype type, int source, int tag,
                        MPI_Comm comm, MPI_Info info, Request* request) {
    return MPI_Precv_init(buf, partitions, count, type, source, tag, comm, info, request);
  }
  static int start(Request* r) { return MPI_Start(r); }
  static int startall(int n, Request r[]) { return MPI_Startall(n, r); }
  static int pready(int p, Request r) { return MPI_Pready(p, r); }
  static int pready_range(int first, int last, Request r) { return MPI_Pready_range(first, last, r); }
  static int pready_list(int n, const int p[], Request r) { return MPI_Pready_list(n, const_cast<int*>(p), r); }
  static int parrived(Request r, int p, int* flag) { return MPI_Parrived(r, p, flag); }
  static int wait(Request* r, MPI_Status* s) { return MPI_Wait(r, s); }
  static int waitall(int n, Request r[], MPI_Status s[]) { return MPI_Waitall(n, r, s); }
  static int waitany(int n, Request r[], int* i, MPI_Status* s) { return MPI_Waitany(n, r, i, s); }
  static int waitsome(int n, Request r[], int* m, int i[], MPI_Status s[]) { return MPI_Waitsome(n, r, m, i, s); }
  static int test(Request* r, int* flag, MPI_Status* s) { return MPI_Test(r, flag, s); }
  static int testall(int n, Request r[], int* flag, MPI_Status s[]) { return MPI_Testall(n, r, flag, s); }
  static int testany(int n, Request r[], int* i, int* flag, MPI_Status* s) { return MPI_Testany(n, r, i, flag, s); }
  static int testsome(int n, Request r[], int* m, int i[], MPI_Status s[]) { return MPI_Testsome(n, r, m, i, s); }
  static int get_status(Request r, int* flag, MPI_Status* s) { return MPI_Request_get_status(r, flag, s); }
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  static constexpr bool has_statuses_of_several = true;
  static int get_status_all(int n, const Request r[], int* flag, MPI_Status s[]) {
    return MPI_Request_get_status_all(n, r, flag, s);
  }
  static int get_status_any(int n, const Request r[], int* i, int* flag, MPI_Status* s) {
    return MPI_Request_get_status_any(n, r, i, flag, s);
  }
  static int get_status_some(int n, const Request r[], int* m, int i[], MPI_Status s[]) {
    return MPI_Request_get_status_some(n, r, m, i, s);
  }
#else
  static constexpr bool has_statuses_of_several = false;
#endif
  static int free(Request* r) { return MPI_Request_free(r); }
};
#endif

#if !defined(PARTITEST_STANDARD_ONLY)
/// The C API on Partita_Request.
struct CFace {
  using Request = Partita_Request;
  static constexpr const char* name = "capi";
  static constexpr const char* prefix = "Partita_";
  static Request null() { return PARTITA_REQUEST_NULL; }

  static int psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag,
                        MPI_Comm comm, MPI_Info info, Request* request) {
    return Partita_Psend_init(buf, partitions, count, type, dest, tag, comm, info, request);
  }
  static int precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype type, int source, int tag,
                        MPI_Comm comm, MPI_Info info, Request* request) {
    return Partita_Precv_init(buf, partitions, count, type, source, tag, comm, info, request);
  }
  static int start(Request* r) { return Partita_Start(r); }
  static int startall(int n, Request r[]) { return Partita_Startall(n, r); }
  static int pready(int p, Request r) { return Partita_Pready(p, r); }
  static int pready_range(int first, int last, Request r) { return Partita_Pready_range(first, last, r); }
  static int pready_list(int n, const int p[], Request r) { return Partita_Pready_list(n, p, r); }
  static int parrived(Request r, int p, int* flag) { return Partita_Parrived(r, p, flag); }
  static int wait(Request* r, MPI_Status* s) { return Partita_Wait(r, s); }
  static int waitall(int n, Request r[], MPI_Status s[]) { return Partita_Waitall(n, r, s); }
  static int waitany(int n, Request r[], int* i, MPI_Status* s) { return Partita_Waitany(n, r, i, s); }
  static int waitsome(int n, Request r[], int* m, int i[], MPI_Status s[]) { return Partita_Waitsome(n, r, m, i, s); }
  static int test(Request* r, int* flag, MPI_Status* s) { return Partita_Test(r, flag, s); }
  static int testall(int n, Request r[], int* flag, MPI_Status s[]) { return Partita_Testall(n, r, flag, s); }
  static int testany(int n, Request r[], int* i, int* flag, MPI_Status* s) { return Partita_Testany(n, r, i, flag, s); }
  static int testsome(int n, Request r[], int* m, int i[], MPI_Status s[]) { return Partita_Testsome(n, r, m, i, s); }
  static int get_status(Request r, int* flag, MPI_Status* s) { return Partita_Request_get_status(r, flag, s); }
  static constexpr bool has_statuses_of_several = false;
  static int free(Request* r) { return Partita_Request_free(r); }
};
#endif

#if defined(PARTITEST_STANDARD_ONLY)
using Faces = testing::Types<StandardFace>;  // an MPI's own partitioned calls under test
#elif defined(PARTITEST_C_ONLY)
using Faces = testing::Types<CFace>;  // without the drop-in
#else
using Faces = testing::Types<StandardFace, CFace>;
#endif

struct FaceNames {
  template <class Face>
  static std::string GetName(int) {
    return Face::name;
  }
};

/// The sentence behind an error code of any call.
inline std::string sentence_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
#if defined(PARTITEST_C_ONLY)
  Partita_Error_string(code, text, &length);
#else
  MPI_Error_string(code, text, &length);
#endif
  return text;
}

inline int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/// What EXPECT_OK and ASSERT_OK say.
inline testing::AssertionResult succeeded(const char* call, const char*, int code, int) {
  if (code == MPI_SUCCESS) return testing::AssertionSuccess();
  return testing::AssertionFailure() << call << " returned " << code << ": " << sentence_of(code);
}

}  // namespace partita::test

/// The call must return MPI_SUCCESS; EXPECT goes on after a failure, ASSERT leaves the function.
#define EXPECT_OK(call) EXPECT_PRED_FORMAT2(::partita::test::succeeded, call, MPI_SUCCESS)
#define ASSERT_OK(call) ASSERT_PRED_FORMAT2(::partita::test::succeeded, call, MPI_SUCCESS)
