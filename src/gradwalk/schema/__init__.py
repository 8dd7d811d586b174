"""The wire format between Python and the browser.

This is its one definition: ``make types`` writes the same in TypeScript, and ``make check`` fails
while it has not. NaN and infinities are not JSON: they travel as the strings "nan", "inf" and
"-inf".
"""
