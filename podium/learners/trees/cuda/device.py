"""The GPU: its memory and its kernels, through CuPy.

Kernels are CUDA C++ text, compiled at first use for the GPU that is there and kept between processes. Nothing is
contracted (`--fmad=false`) or flushed to 0 (`--ftz=false`), so that operations are those of the CPU.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from podium._runtime.files import write_whole
from podium.learners.trees.cuda.arguments import structures

THREADS = 512  # per block of the kernels of a tree
BLOCKS_PER_PROCESSOR = 2
SHARED_BYTES = 2 * 256 * 32 * 4 + 16 * 256  # a histogram of 32 columns; scratch memory of 16 warps
_OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", f"-DTHREADS={THREADS}")
_PARTS = ("common", "measure", "split", "grow", "oblivious", "leaves")
_ON_GPU = """
#define SPIN()
__device__ unsigned int ADD_RELEASE(unsigned int* at, unsigned int value) {
    unsigned int old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
    return old;
}
__device__ unsigned int LOAD_ACQUIRE(const unsigned int* at) {
    unsigned int value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}
__device__ void STORE_RELEASE(unsigned int* at, unsigned int value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}
#define DYNAMIC_SHARED(name, bytes) extern __shared__ __align__(16) unsigned char name[];
"""


class NoGPU(ValueError):
    """device="cuda" cannot be had, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(f'device="cuda" needs an NVIDIA GPU and CuPy: {reason}. Use device="cpu", or "auto".')


def tree_source(wide: bool) -> str:
    """The text of the kernels of a tree."""
    folder = Path(__file__).parent / "kernels"
    parts = [(folder / f"{part}.cu").read_text(encoding="utf-8") for part in _PARTS]
    return "\n".join([f"#define WIDE {int(wide)}", structures(), *parts])


def why_not() -> str | None:
    """Why there is no GPU to train on, or None."""
    try:
        import cupy
    except ModuleNotFoundError:
        return "CuPy is not installed: pip install 'podium[gpu]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy's own errors are no subclasses of one that can be named without it
        return f"CuPy finds no NVIDIA GPU ({str(error).splitlines()[0]})"
    return None if count else "CuPy finds no NVIDIA GPU"


class Gpu:
    """Arrays and kernels of the current GPU."""

    def __init__(self) -> None:
        reason = why_not()
        if reason is not None:
            raise NoGPU(reason)
        import cupy

        self._cupy = cupy
        self.n_blocks = BLOCKS_PER_PROCESSOR * cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.n_threads = THREADS

    def free_bytes(self) -> int:
        """What can be allocated: the GPU's free memory, and what CuPy holds unused."""
        free = self._cupy.cuda.runtime.memGetInfo()[0]
        return int(free + self._cupy.get_default_memory_pool().free_bytes())

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self._cupy.empty(shape, dtype)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return self._cupy.zeros(shape, dtype)

    def upload(self, values: np.ndarray) -> Any:
        return self._cupy.asarray(values)

    def write(self, values: np.ndarray, array: Any) -> None:
        """Into an array that is there."""
        array.set(values)

    def download(self, array: Any) -> np.ndarray:
        """A copy for the host, once all kernels before are done."""
        return np.asarray(array.get())

    def clear(self, array: Any) -> None:
        array.data.memset_async(0, array.nbytes)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def kernels(self, source: str, cooperative: bool) -> Kernels:
        """cooperative: the blocks of a launch wait for each other, so all are resident."""
        return Kernels(source, cooperative)


@lru_cache
def _compiled(source: str, cooperative: bool) -> Any:
    import cupy

    return cupy.RawModule(path=str(_compiled_file(_ON_GPU + source)), enable_cooperative_groups=cooperative)


def _compiled_file(source: str) -> Path:
    """The compiled kernels, kept where CuPy keeps its own, or for this process alone where nothing can be written.

    CuPy would have float32 numbers next to 0 flushed to 0 (`-ftz=true`), which the CPU does not do: so NVRTC is called
    with our options alone.
    """
    import cupy
    from cupy.cuda import compiler, nvrtc

    known = repr((source, _OPTIONS, cupy.cuda.Device().compute_capability, nvrtc.getVersion()))
    folder = Path(os.environ.get("CUPY_CACHE_DIR", "~/.cupy/kernel_cache")).expanduser()
    path = folder / f"podium-{sha256(known.encode()).hexdigest()[:32]}.cubin"
    if path.is_file():
        return path
    content, _ = compiler.compile_using_nvrtc(source, _OPTIONS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with write_whole(path) as file:
            file.write(content)
    except OSError:
        path = Path(mkdtemp(prefix="podium-")) / path.name
        path.write_bytes(content)
    return path


class Kernels:
    """The kernels of one text."""

    def __init__(self, source: str, cooperative: bool) -> None:
        self._module, self._known = _compiled(source, cooperative), dict[str, Any]()

    def launch(self, name: str, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int = 0) -> None:
        kernel = self._known.get(name)
        if kernel is None:
            kernel = self._known[name] = self._module.get_function(name)
            if shared_bytes:
                kernel.max_dynamic_shared_size_bytes = shared_bytes
        kernel((blocks,), (threads,), arguments, shared_mem=shared_bytes)
