! Partitioned requests made in C, and ordinary persistent ones made in Fortran and matched in C, all completed in Fortran,
! whose wrappers call the profiling names of the C functions. Two ranks; rank 0 sends and takes its time.
module buffer
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: size_bytes = 40000
  character(kind=c_char), bind(C, name="dropin_fortran_data") :: data(size_bytes)
end module

program dropin_fortran
  use mpi_f08
  use, intrinsic :: iso_c_binding
  use buffer
  implicit none

  interface
    function make_request(fortran_comm) bind(C) result(handle)
      import :: c_int
      integer(c_int), value :: fortran_comm
      integer(c_int) :: handle
    end function
    function matched_request(handle) bind(C) result(same)
      import :: c_int
      integer(c_int), value :: handle
      integer(c_int) :: same
    end function
    subroutine pause_long() bind(C)
    end subroutine
    subroutine fill(epoch) bind(C)
      import :: c_int
      integer(c_int), value :: epoch
    end subroutine
    subroutine mark_late(handle) bind(C)
      import :: c_int
      integer(c_int), value :: handle
    end subroutine
    function wrong_bytes(epoch) bind(C) result(wrong)
      import :: c_int
      integer(c_int), value :: epoch
      integer(c_int) :: wrong
    end function
  end interface

  type(MPI_Request) :: requests(1)
  integer :: rank, kind, epoch, wrong, index, all_wrong
  integer, parameter :: partitioned = 1, message = 2, matched_message = 3
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  wrong = 0
  do kind = partitioned, matched_message
    if (kind == partitioned) then
      requests(1)%MPI_VAL = make_request(int(MPI_COMM_WORLD%MPI_VAL, c_int))
    else if (rank == 0) then
      call MPI_Send_init(data, size_bytes, MPI_CHARACTER, 1, 6, MPI_COMM_WORLD, requests(1))
    else
      call MPI_Recv_init(data, size_bytes, MPI_CHARACTER, 0, 6, MPI_COMM_WORLD, requests(1))
    end if
    if (kind == matched_message) requests(1)%MPI_VAL = matched_request(int(requests(1)%MPI_VAL, c_int))
    do epoch = 1, 8
      call fill(int(epoch, c_int))
      if (rank == 0 .and. kind /= partitioned) call pause_long()
      if (mod(epoch, 2) == 0) then
        call MPI_Start(requests(1))
      else
        call MPI_Startall(1, requests)
      end if
      if (rank == 0 .and. kind == partitioned) call mark_late(int(requests(1)%MPI_VAL, c_int))
      select case (mod(epoch, 4))
      case (0)
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
      case (1)
        call MPI_Waitall(1, requests, MPI_STATUSES_IGNORE)
      case (2)
        flag = .false.
        do while (.not. flag)
          call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE)
        end do
      case (3)
        call MPI_Waitany(1, requests, index, MPI_STATUS_IGNORE)
      end select
      wrong = wrong + wrong_bytes(int(epoch, c_int))
      call MPI_Barrier(MPI_COMM_WORLD)
    end do
    call MPI_Request_free(requests(1))
  end do
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (rank == 0) print *, all_wrong, 'wrong bytes'
  if (all_wrong /= 0) stop 1
end program
