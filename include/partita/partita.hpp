// Partita: the C++ API. C++17, headers only, over partita/partita.h, whose pages in docs/api/ hold for each call.
//
// Requests and queues own what they stand for, and an error is an exception. A call costs what the C call costs. Errors
// are thrown where the error handler of the communicator concerned returns (communicator::throw_errors); MPI's default
// handler ends the job before. What has no name here is called by its C name, on handle().
#ifndef PARTITA_PARTITA_HPP
#define PARTITA_PARTITA_HPP

#include <partita/partita.h>
#include <partita/communicator.hpp>
#include <partita/completion.hpp>
#include <partita/error.hpp>
#include <partita/queue.hpp>
#include <partita/request.hpp>
#include <partita/runtime.hpp>

#endif
