"""Derivatives of determinants, linear systems, Cholesky factors and Fourier transforms."""

from __future__ import annotations

from .case import Case, Row, Table

_SOLVE = "torch.linalg.solve_triangular"


def _determinant(case: Case) -> str | None:
    factors = case.saved.get("LU")
    if factors is not None and bool((factors.diagonal(dim1=-2, dim2=-1) == 0).any()):
        return None  # a singular matrix
    return "(grad * result.conj()).unsqueeze(-1).unsqueeze(-1) * torch.linalg.inv(A).mH"


def _log_determinant(case: Case) -> str:
    inverse = "torch.linalg.inv(A).mH"
    if case.input.dtype.is_complex:
        turned = "turned = grads[1] + 1j * (grads[0] * sign.conj()).imag\n"
        return f"{turned}turned.unsqueeze(-1).unsqueeze(-1) * {inverse}"
    return f"grads[1].unsqueeze(-1).unsqueeze(-1) * {inverse}"


def _is_vector(case: Case) -> bool:
    """Return whether a linear system's right-hand side is one vector per matrix."""
    found = case.saved.get("A")
    matrices = len(found.shape) if found is not None else len((case.inputs[0] or case.input).shape)
    return len(case.output.shape) < matrices


_BACK = {
    True: "torch.linalg.solve(A.mH, grad)",
    False: "torch.linalg.solve(A.mH, grad, left=False)",
}


def _solved_matrix(case: Case) -> str:
    back = f"back = {_BACK[case.saved['left']]}\n"
    if _is_vector(case):
        product = "-back.unsqueeze(-1) @ result.unsqueeze(-1).mH"
    else:
        product = "-back @ result.mH" if case.saved["left"] else "-result.mH @ back"
    return _fitted(case, back + product)


def _fitted(case: Case, code: str) -> str:
    """Return a matrix for each right-hand side, summed where one matrix served several."""
    lines, _, last = code.rpartition("\n")
    batch = case.output.shape[: len(case.output.shape) - (1 if _is_vector(case) else 2)]
    if case.input.shape[:-2] == batch:
        return code
    return f"{lines}\n({last}).sum_to_size{case.input.shape}"


_TRIANGULAR = (
    "torch.linalg.solve_triangular(self.mH, grad, upper=not upper, "
    "left=left, unitriangular=unitriangular)"
)


def _triangular_matrix(case: Case) -> str:
    product = "back @ result.mH" if case.saved["left"] else "result.mH @ back"
    side = "triu" if case.saved["upper"] else "tril"
    inside = int(case.saved["unitriangular"]) * (1 if case.saved["upper"] else -1)
    code = f"-({product}).{side}({inside or ''})"
    return _fitted(case, f"back = {_TRIANGULAR}\n{code}")


def _cholesky(factor: str) -> Row:
    def row(case: Case) -> str:
        upper = case.saved["upper"]
        lower, arrived = (f"{factor}.mH", "grad.mH") if upper else (factor, "grad")
        return (
            f"lower = {lower}\n"
            f"inner = (lower.mH @ {arrived}).tril()\n"
            "symmetric = (inner + inner.tril(-1).mH) / 2\n"
            f"left = {_SOLVE}(lower.mH, symmetric, upper=True)\n"
            f"{_SOLVE}(lower, left, upper=False, left=False)"
        )

    return row


def _of_real(case: Case) -> str:
    if case.saved["onesided"]:
        # Half of the frequencies were made; a gradient of zero belongs to the others.
        return (
            "last = dim[-1]\n"
            "whole = torch.slice_scatter("
            "grad.new_zeros(self.shape), grad, last, 0, grad.shape[last])\n"
            "torch.ops.aten._fft_c2c(whole, dim, normalization, False).real"
        )
    return "torch.ops.aten._fft_c2c(grad, dim, normalization, False).real"


def _to_real(case: Case) -> str:
    last = case.saved["dim"][-1]
    twice = case.output.shape[last] - case.input.shape[last]
    half = f"torch.ops.aten._fft_r2c(grad, {tuple(case.saved['dim'])}, normalization, True)"
    if twice <= 0:
        return half
    # Each of these frequencies stands for its conjugate, too.
    return (
        f"half = {half}\n"
        f"torch.slice_scatter(half, 2 * half.narrow({last}, 1, {twice}), {last}, 1, {1 + twice})"
    )


LINEAR_ALGEBRA: Table = {
    "LinalgDetBackward0": {"A": _determinant},
    "LinalgSlogdetBackward0": {"A": _log_determinant},
    "LinalgSolveExBackward0": {
        "A": _solved_matrix,
        "B": lambda case: case.reduced(_BACK[case.saved["left"]]),
    },
    "LinalgSolveTriangularBackward0": {
        "self": _triangular_matrix,
        "B": lambda case: case.reduced(_TRIANGULAR),
    },
    "LinalgCholeskyExBackward0": {"self": _cholesky("L")},
    "CholeskyBackward0": {"self": _cholesky("result")},
    "FftR2CBackward0": {"self": _of_real},
    "FftC2RBackward0": {"self": _to_real},
}
