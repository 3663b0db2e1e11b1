"""A rank of torch_test.py: partitioned communication between tensors of PyTorch.

    torch_rank.py ALLOCATOR BRIDGE INCLUDES

    ALLOCATOR  default (cached blocks of cudaMalloc), expandable (segments mapped by hand) or async (cudaMallocAsync)
    BRIDGE     the library of torch_bridge.cu
    INCLUDES   folders for NVRTC, colons between them

It needs a Python that has PyTorch, which need have no pytest; so its checks are plain asserts, and one that fails ends the job."""

import ctypes
import os
import sys
import traceback

TAG = 9
GUARD, POISON = 0x5a, 0xa5


# ---- Partita by ctypes --------------------------------------------------------------------------------------------------


class Prequest(ctypes.Structure):
    """Partita_Prequest (partita/device/prequest.h)."""
    _fields_ = [(name, ctypes.c_void_p) for name in ("state", "host", "promise", "credit", "buffer", "remote",
                                                     "arrival_device", "arrival_host", "started")]
    _fields_ += [("total_bytes", ctypes.c_int64), ("send_partition_bytes", ctypes.c_int64),
                 ("recv_partition_bytes", ctypes.c_int64), ("send_partitions", ctypes.c_int32),
                 ("recv_partitions", ctypes.c_int32), ("transport_partitions", ctypes.c_int32),
                 ("flags", ctypes.c_uint32), ("limit_ns", ctypes.c_uint64), ("unit_bytes", ctypes.c_uint32),
                 ("life", ctypes.c_uint32), ("marks_each", ctypes.c_uint32), ("collective", ctypes.c_uint32),
                 ("sent", ctypes.c_void_p), ("rank", ctypes.c_int32), ("ranks", ctypes.c_int32),
                 ("root", ctypes.c_int32), ("reduction", ctypes.c_uint32), ("strips", ctypes.c_uint32),
                 ("rounds", ctypes.c_uint32), ("longer_shares", ctypes.c_uint32), ("share_units", ctypes.c_uint64)]


class Partita:
    """The C API; an error is an exception with its sentence."""

    def __init__(self, bridge):
        self.library = ctypes.CDLL(bridge, mode=ctypes.RTLD_GLOBAL)  # brings libpartita and the MPI along
        assert ctypes.sizeof(Prequest) == self.library.bridge_prequest_bytes()
        self.status = ctypes.create_string_buffer(256)  # no MPI has a larger MPI_Status

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code == 0:
            return
        text = ctypes.create_string_buffer(65536)
        length = ctypes.c_int()
        self.library.Partita_Error_string(code, text, ctypes.byref(length))
        raise RuntimeError(f"{name} returns {code}: {text.value.decode(errors='replace')}")

    def begin(self):
        rank, ranks = ctypes.c_int(), ctypes.c_int()
        self.call("bridge_start", ctypes.byref(rank), ctypes.byref(ranks))
        return rank.value, ranks.value

    def request(self, side, tensor, partitions, peer):
        size_bytes = tensor.numel() * tensor.element_size()
        assert tensor.is_contiguous() and size_bytes % partitions == 0
        handle = ctypes.c_void_p()
        self.call(f"bridge_{side}", ctypes.c_void_p(tensor.data_ptr()), partitions,
                  ctypes.c_longlong(size_bytes // partitions), peer, TAG, ctypes.byref(handle))
        return handle

    def start(self, request):
        self.call("Partita_Start", ctypes.byref(request))

    def ready(self, partition, request):
        self.call("Partita_Pready", partition, request)

    def wait(self, request):
        self.call("Partita_Wait", ctypes.byref(request), self.status)

    def free(self, request):
        self.call("Partita_Request_free", ctypes.byref(request))

    def device(self, request):
        made = Prequest()
        self.call("Partita_Prequest_create", ctypes.byref(made), request)
        return made

    def info(self, request, key):
        value = ctypes.create_string_buffer(4096)
        self.call("bridge_info", request, key.encode(), value)
        return value.value.decode()


# ---- A rank -------------------------------------------------------------------------------------------------------------


class Rank:
    def __init__(self, allocator, bridge, includes):
        import torch
        self.torch = torch
        self.allocator, self.includes = allocator, includes.split(":")
        self.partita = Partita(bridge)
        self.rank, self.ranks = self.partita.begin()
        assert self.ranks == 2, "two ranks are expected"
        self.peer = 1 - self.rank
        torch.cuda.set_device(self.rank % torch.cuda.device_count())
        self.gpu = torch.cuda.current_device()
        self.key = 0
        self.ways = set()

    def say(self, text):
        print(f"rank {self.rank}: {text}", flush=True)

    def barrier(self):
        self.partita.call("bridge_barrier")

    def bytes_of(self, size_bytes):
        return self.torch.empty(size_bytes, dtype=self.torch.uint8, device="cuda")

    def pattern(self, size_bytes, key, rank):
        """What `rank` sends in the epoch `key`."""
        place = self.torch.arange(size_bytes, dtype=self.torch.int64, device="cuda")
        mixed = (place * 2654435761 + key * 40503 + rank * 97) & 0xffffffff
        return ((mixed ^ (mixed >> 13)) >> 5 & 0xff).to(self.torch.uint8)

    def transfer(self, out, into, partitions, rounds=2, mark=None):
        """Both ways between the ranks, contents compared. `mark(request, device request)` marks all partitions."""
        torch, partita = self.torch, self.partita
        send = partita.request("send", out, partitions, self.peer)
        recv = partita.request("recv", into, partitions, self.peer)
        device = partita.device(send) if mark else None
        for _ in range(rounds):
            self.key += 1
            out.copy_(self.pattern(out.numel(), self.key, self.rank))
            into.fill_(POISON)
            torch.cuda.synchronize()
            partita.start(recv)
            partita.start(send)
            if mark:
                mark(device)
            for partition in reversed(range(0 if mark else partitions)):
                partita.ready(partition, send)
            partita.wait(send)
            partita.wait(recv)
            wrong = int((into != self.pattern(into.numel(), self.key, self.peer)).sum())
            assert wrong == 0, f"{wrong} of {into.numel()} bytes are wrong"
        self.ways.add((partita.info(recv, "partita_link"), partita.info(recv, "partita_reason")))
        if mark:
            partita.call("Partita_Prequest_free", ctypes.byref(device))
        partita.free(send)
        partita.free(recv)
        self.barrier()  # requests before buffers, on both sides

    def check_allocator(self):
        """The allocator that the entry names is the one in force."""
        cuda = self.torch.cuda
        backend = cuda.memory.get_allocator_backend()
        assert backend == ("cudaMallocAsync" if self.allocator == "async" else "native"), backend
        if self.allocator == "async":
            return
        keep = self.bytes_of(1000)
        expandable = {segment.get("is_expandable", False) for segment in cuda.memory_snapshot()}
        assert expandable == {self.allocator == "expandable"}, expandable
        del keep

    def parts_of_blocks(self):
        """Tensors at odd offsets in their blocks, over one segment or several; nothing beside them is written."""
        for size, offset, partitions in [(8, 0, 1), (1000, 1, 4), (4099, 257, 1), (12345, 3, 15), (1 << 20, 13, 16),
                                         (48 << 20, 5, 32)]:
            wholes = [self.bytes_of(size + offset + 11).fill_(GUARD) for _ in range(2)]
            out, into = (whole[offset:offset + size] for whole in wholes)
            self.transfer(out, into, partitions)
            for whole in wholes:
                beside = self.torch.cat([whole[:offset], whole[offset + size:]])
                assert bool((beside == GUARD).all()), "bytes beside the tensor were written"

    def neighbours(self):
        """Small tensors of one block, several requests alive at once."""
        tensors = [self.bytes_of(512).fill_(GUARD) for _ in range(24)]
        for i in range(0, 20, 4):
            self.transfer(tensors[i + 1], tensors[i + 2], 4)
            assert all(bool((tensors[j] == GUARD).all()) for j in (i, i + 3)), "a neighbour was written"

    def addresses_again(self):
        """Tensors are freed and made anew between requests, and now and then the allocator gives its memory back."""
        seen, again = set(), 0
        for i in range(12):
            size = [3 << 20, 3 << 20, 40 << 20, 5 << 20][i % 4]
            out, into = self.bytes_of(size), self.bytes_of(size)
            again += len({out.data_ptr(), into.data_ptr()} & seen)
            seen |= {out.data_ptr(), into.data_ptr()}
            self.transfer(out, into, 8, rounds=1)
            del out, into
            if i % 3 == 2:
                self.torch.cuda.empty_cache()
        assert again > 0, "no address came again, so nothing was tested"
        self.say(f"{again} addresses came again")

    def marks_by_kernels(self):
        failed = self.torch.zeros(1, dtype=self.torch.int32, device="cuda")

        def mark(device):
            stream = self.torch.cuda.current_stream().cuda_stream
            self.partita.call("bridge_mark", ctypes.byref(device), self.gpu, ctypes.c_void_p(stream),
                              ctypes.c_void_p(failed.data_ptr()))

        for size, offset, partitions in [(4096, 0, 4), (1 << 20, 16, 64), (30 << 20, 7, 12)]:
            out, into = self.bytes_of(size + offset)[offset:], self.bytes_of(size + offset)[offset:]
            self.transfer(out, into, partitions, rounds=4, mark=mark)
        assert int(failed) == 0, f"{int(failed)} marks failed"

    def marks_by_run_time_kernels(self):
        """The device API compiled at run time, as CuPy programs use it."""
        try:
            import cupy
            import numpy
        except ImportError as error:
            print(f"left out: the kernel that CuPy compiles ({error})")
            return
        source = r"""
        #include <partita/device.cuh>
        extern "C" __global__ void mark(const MPIX_Prequest* send, int* failed) {
          const MPIX_Prequest request = *send;
          const int code = MPIX_Pready_block(static_cast<int>(blockIdx.x), request);
          if (threadIdx.x == 0 && code != 0) atomicAdd(failed, 1);
        }"""
        cupy.cuda.Device(self.gpu).use()
        options = ("--std=c++17", *(f"-I{folder}" for folder in self.includes))
        kernel = cupy.RawModule(code=source, options=options, backend="nvrtc").get_function("mark")
        failed = cupy.zeros(1, dtype=cupy.int32)
        stream = cupy.cuda.ExternalStream(self.torch.cuda.current_stream().cuda_stream)

        def mark(device):
            with stream:
                held = cupy.asarray(numpy.frombuffer(bytes(device), dtype=numpy.uint8))
                kernel((device.send_partitions,), (64,), (held, failed))
                stream.synchronize()

        out, into = self.bytes_of(1 << 20), self.bytes_of(1 << 20)
        self.transfer(out, into, 16, rounds=4, mark=mark)
        assert int(failed[0]) == 0, f"{int(failed[0])} marks failed"

    def check_links(self):
        """What can be mapped is mapped, and what is staged says why."""
        for link, reason in sorted(self.ways):
            self.say(f"link {link}: {reason}")
        if self.allocator == "async":
            assert all("staged" in reason and "pool" in reason for _, reason in self.ways), \
                "memory of a pool is staged, with the reason"
        elif self.allocator == "expandable" and any("handle type" in reason for _, reason in self.ways):
            self.say("this PyTorch makes its segments without a handle that other processes can import")
        else:
            assert all(link == "direct" and "staged" not in reason for link, reason in self.ways), \
                "memory that another process can map is mapped"

    def run(self):
        self.check_allocator()
        for case in (self.parts_of_blocks, self.neighbours, self.addresses_again, self.marks_by_kernels,
                     self.marks_by_run_time_kernels):
            self.say(case.__name__)
            case()
        self.check_links()
        self.partita.call("bridge_end")
        self.say("ends well")


def main():
    try:
        Rank(*sys.argv[1:]).run()
    except BaseException:  # the other rank waits for this one
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


main()
