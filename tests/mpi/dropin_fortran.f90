! Partitioned requests made in C and completed in Fortran, whose wrappers call the profiling names of the C functions.
! Two ranks; rank 0 sends and takes its time.
program dropin_fortran
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none

  interface
    function make_request(fortran_comm) bind(C) result(handle)
      import :: c_int
      integer(c_int), value :: fortran_comm
      integer(c_int) :: handle
    end function
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
  integer :: rank, epoch, wrong, index, all_wrong
  logical :: flag

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  requests(1)%MPI_VAL = make_request(int(MPI_COMM_WORLD%MPI_VAL, c_int))
  wrong = 0
  do epoch = 1, 8
    call fill(int(epoch, c_int))
    if (mod(epoch, 2) == 0) then
      call MPI_Start(requests(1))
    else
      call MPI_Startall(1, requests)
    end if
    if (rank == 0) call mark_late(int(requests(1)%MPI_VAL, c_int))
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
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (rank == 0) print *, all_wrong, 'wrong bytes'
  if (all_wrong /= 0) stop 1
end program
