"""The PTX of a program's source that nvcc compiles by default holds no product and sum in one operation but the source's own, so that
its kernels reduce complex numbers to the same bits as the library's. Needs no GPU."""

import pathlib
import re

OWN = "multiplies_and_adds"


def functions_of(ptx):
    """{name: body}, of what has one."""
    found = re.findall(r"^(?:\.\w+ )*\.(?:entry|func)\s*(?:\([^)]*\)\s*)?(\w+)\s*\([^)]*\)[^{;]*\{(.*?)^\}", ptx, re.MULTILINE | re.DOTALL)
    return dict(found)


def test_reductions_round_each_product_and_each_sum(given):
    ptx = pathlib.Path(given["ptx"]).read_text(encoding="utf-8")
    joined = re.compile(r"\b(?:fma|mad)\.rn\.\S*f(?:32|64)\b")
    functions = functions_of(ptx)
    assert {name for name, body in functions.items() if joined.search(body)} == {OWN}
    assert len(joined.findall(ptx)) == len(joined.findall(functions[OWN])) == 2, "every function was looked at"
    reductions = "".join(body for name, body in functions.items() if name != OWN)
    for rounded in ("mul.rn.f32", "mul.rn.f64", "sub.rn.f32", "sub.rn.f64"):
        assert rounded in reductions, f"{rounded}: the products of complex numbers are there"
