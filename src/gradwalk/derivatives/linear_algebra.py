"""Derivatives of inverses, solvers and decompositions of matrices, and of Fourier transforms."""

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


def _pseudo_inverse(case: Case) -> str:
    rows, columns = case.input.shape[-2:]
    if rows <= columns:
        return (
            "inner = grad.mH @ result\n"
            "both = inner @ result.mH\n"
            "both - (result @ inner).mH - self @ result @ both"
            " + result.mH @ result @ (grad.mH - inner @ self)"
        )
    return (
        "inner = result @ grad.mH\n"
        "both = result.mH @ inner\n"
        "both - (inner @ result).mH - both @ result @ self"
        " + (grad.mH - self @ inner) @ result @ result.mH"
    )


def _is_vector(case: Case) -> bool:
    """Return whether a linear system's right-hand side is one vector per matrix."""
    found = case.saved.get("A")
    matrices = len(found.shape) if found is not None else len((case.inputs[0] or case.input).shape)
    return len(case.output.shape) < matrices


def _solved_factors(case: Case) -> str:
    """Return the code for a system with a packed matrix ``P @ L @ U``."""
    left, adjoint = case.saved["left"], case.saved["adjoint"]
    product = {
        (True, False): "back @ result.mH",
        (True, True): "result @ back.mH",
        (False, False): "result.mH @ back",
        (False, True): "back.mH @ result",
    }[left, adjoint]
    code = "(inner @ U.mH).tril(-1) + (L.mH @ inner).triu()"
    if case.input.shape[:-2] != case.output.shape[:-2]:
        code = f"({code}).sum_to_size{case.input.shape}"
    return (
        "back = torch.linalg.lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)\n"
        "P, L, U = torch.lu_unpack(LU, pivots)\n"
        f"inner = -P.mT @ {product}\n"
        f"{code}"
    )


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


def _cholesky_inverse(case: Case) -> str:
    both = "both = result @ (grad + grad.mH) @ result\n"
    return both + ("-self @ both" if case.saved["upper"] else "-both @ self")


def _cholesky_solved_factor(case: Case) -> str:
    product = "back @ result.mH"
    both = f"both = {product} + ({product}).mH\n"
    last = "-input2 @ both" if case.saved["upper"] else "-both @ input2"
    return f"back = torch.cholesky_solve(grad, input2, upper)\n{both}" + last


_GAPS = "gaps = {0}.unsqueeze(-2) - {0}.unsqueeze(-1)\n"


def _turned(turning: str, values: str) -> str:
    """Return how far the vectors turn into each other: less, the further their values are apart."""
    ones = f"torch.eye({values}.shape[-1], dtype={values}.dtype, device={values}.device)"
    return f"inner = ({turning} / (gaps + {ones})).masked_fill({turning} == 0, 0)"


# For a symmetric matrix, whose eigenvectors are orthonormal.
_EIGEN = (
    f"{_GAPS.format('eigenvalues')}"
    "turning = eigenvectors.mH @ grads[1]\n"
    "skew = (turning - turning.mH) / 2\n"
    f"{_turned('skew', 'eigenvalues')}\n"
    "eigenvectors @ (inner + torch.diag_embed(grads[0])) @ eigenvectors.mH"
)


def _eigen_of_any(case: Case) -> str:
    code = (
        f"{_GAPS.format('eigenvalues.conj()')}"
        "turning = eigenvectors.mH @ grads[1]\n"
        "along = turning.diagonal(dim1=-2, dim2=-1).real\n"
        "across = turning - eigenvectors.mH @ eigenvectors * along.unsqueeze(-2)\n"
        "inner = (across / gaps).masked_fill(torch.eye(gaps.shape[-1], dtype=torch.bool), 0)\n"
        "inner = inner + torch.diag_embed(grads[0])\n"
        "torch.linalg.solve(eigenvectors.mH, inner @ eigenvectors.mH)"
    )
    return code if case.input.dtype.is_complex else f"{code}.real"


def _singular(case: Case) -> str:
    rows, columns = case.input.shape[-2:]
    code = ""
    left, right, of_left, of_right = "U", "Vh", "grads[0]", "grads[2]"
    if case.saved["full_matrices"]:
        # The vectors beyond the smaller side belong to no singular value.
        code = (
            "count = S.shape[-1]\n"
            "left, right = U[..., :count], Vh[..., :count, :]\n"
            "of_left, of_right = grads[0][..., :count], grads[2][..., :count, :]\n"
        )
        left, right, of_left, of_right = "left", "right", "of_left", "of_right"
    code += (
        "squares = S ** 2\n"
        f"{_GAPS.format('squares')}"
        f"in_left, in_right = {left}.mH @ {of_left}, {right} @ {of_right}.mH\n"
        "skew_left, skew_right = in_left - in_left.mH, in_right - in_right.mH\n"
        "turning = skew_left * S.unsqueeze(-2) + skew_right * S.unsqueeze(-1)\n"
        f"{_turned('turning', 'S')} + torch.diag_embed(grads[1])\n"
    )
    if case.is_complex:
        code += (
            "phases = skew_left.diagonal(dim1=-2, dim2=-1) / (2 * S)\n"
            "inner = inner + torch.diag_embed(phases)\n"
        )
    last = f"{left} @ inner @ {right}"
    if rows > columns:
        code += f"beyond = ({of_left} - {left} @ in_left) / S.unsqueeze(-2)\n"
        last += f" + beyond @ {right}"
    elif rows < columns:
        code += f"beyond = ({of_right} - in_right.mH @ {right}) / S.unsqueeze(-1)\n"
        last += f" + {left} @ beyond"
    return code + last


def _orthogonal_triangular(case: Case) -> str | None:
    rows, columns = case.input.shape[-2:]
    if case.saved["mode"] == "r" or (case.saved["mode"] == "complete" and rows > columns):
        return None  # torch refuses these
    first, upper, of_upper, of_orthogonal = "", "R", "grads[1]", "grads[0]"
    if rows < columns:
        # The columns beyond the square are made by Q alone.
        first = (
            f"upper, of_upper = R[..., :{rows}], grads[1][..., :{rows}]\n"
            f"beyond, of_beyond = R[..., {rows}:], grads[1][..., {rows}:]\n"
            "of_orthogonal = grads[0] + Q @ beyond @ of_beyond.mH\n"
        )
        upper, of_upper, of_orthogonal = "upper", "of_upper", "of_orthogonal"
    solved = f"torch.linalg.solve_triangular({upper}.mH, both, upper=False, left=False)"
    return (
        f"{first}inner = ({of_upper} @ {upper}.mH - Q.mH @ {of_orthogonal}).triu()\n"
        "halved = inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1).real / 2)\n"
        f"both = {of_orthogonal} + Q @ (halved + halved.mH)\n"
        + (f"torch.cat([{solved}, Q @ of_beyond], -1)" if first else solved)
    )


_UNPACKED = (
    "P, L, U = torch.lu_unpack(LU, pivots)\n"
    "of_lower, of_upper = grad[..., :{0}].tril(-1), grad[..., :{0}, :].triu()\n"
)
_OF_FACTORS = "of_lower, of_upper = grads[0].tril(-1), grads[1].triu()\n"


def _factored(first: str) -> Row:
    """Return the row of a decomposition ``P @ L @ U``: a permutation and two triangles."""

    def row(case: Case) -> str | None:
        if not case.saved["pivot"]:
            return None
        rows, columns = case.input.shape[-2:]
        more = abs(rows - columns)
        if rows <= columns:
            square = f"U[..., :{rows}]" if more else "U"
            inner = "(L.mH @ of_lower - of_upper @ U.mH).tril(-1)"
            part = f"{_SOLVE}({square}.mH, inner, upper=False, left=False)"
            part = f"torch.nn.functional.pad({part}, (0, {more}))" if more else part
            last = f"{_SOLVE}(L.mH, of_upper + part, upper=True, unitriangular=True)"
        else:
            inner = "(of_upper @ U.mH - L.mH @ of_lower).triu()"
            part = f"{_SOLVE}(L[..., :{columns}, :].mH, inner, upper=True, unitriangular=True)"
            part = f"torch.nn.functional.pad({part}, (0, 0, 0, {more}))"
            last = f"{_SOLVE}(U.mH, of_lower + part, upper=False, left=False)"
        start = first.format(min(rows, columns))
        return f"{start}inner = {inner}\npart = {part}\nP @ {last}"

    return row


def _unpacked(case: Case) -> str:
    rows, columns = case.input.shape[-2:]
    lower, upper = "grads[0].tril(-1)", "grads[1].triu()"
    if rows < columns:
        lower = f"torch.nn.functional.pad({lower}, (0, {columns - rows}))"
    elif rows > columns:
        upper = f"torch.nn.functional.pad({upper}, (0, 0, 0, {rows - columns}))"
    return f"{lower} + {upper}"


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
    "LinalgInvExBackward0": {"A": "-inverse.mT.conj() @ grad @ inverse.mT.conj()"},
    "LinalgPinvBackward0": {"self": _pseudo_inverse},
    "LinalgDetBackward0": {"A": _determinant},
    "LinalgSlogdetBackward0": {"A": _log_determinant},
    "LinalgSolveExBackward0": {
        "A": _solved_matrix,
        "B": lambda case: case.reduced(_BACK[case.saved["left"]]),
    },
    "LinalgLuSolveBackward0": {"LU": _solved_factors},
    "LinalgSolveTriangularBackward0": {
        "self": _triangular_matrix,
        "B": lambda case: case.reduced(_TRIANGULAR),
    },
    "LinalgCholeskyExBackward0": {"self": _cholesky("L")},
    "CholeskyBackward0": {"self": _cholesky("result")},
    "CholeskyInverseBackward0": {"self": _cholesky_inverse},
    "CholeskySolveBackward0": {
        "self": "torch.cholesky_solve(grad, input2, upper)",
        "input2": _cholesky_solved_factor,
    },
    "LinalgEighBackward0": {"A": _EIGEN},
    "LinalgEigBackward0": {"self": _eigen_of_any},
    "LinalgSvdBackward0": {"A": _singular},
    "LinalgQrBackward0": {"A": _orthogonal_triangular},
    "LinalgLuFactorExBackward0": {"A": _factored(_UNPACKED)},
    "LinalgLuBackward0": {"A": _factored(_OF_FACTORS)},
    "LuUnpackBackward0": {"LU_data": _unpacked},
    "LinalgCrossBackward0": {
        "self": lambda case: case.reduced("torch.linalg.cross(other.conj(), grad, dim=dim)"),
        "other": lambda case: case.reduced("torch.linalg.cross(grad, self.conj(), dim=dim)"),
    },
    "LinalgMatrixExpBackward0": {
        "self": "upper = torch.cat([self.mH, grad], -1)\n"
        "lower = torch.cat([torch.zeros_like(self), self.mH], -1)\n"
        "both = torch.linalg.matrix_exp(torch.cat([upper, lower], -2))\n"
        "both[..., : self.shape[-1], self.shape[-1] :]"
    },
    "FftR2CBackward0": {"self": _of_real},
    "FftC2RBackward0": {"self": _to_real},
}
