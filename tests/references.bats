# Filters beside SciPy's generic filters and float64 sums (and DIPlib, astropy, scikit-image where they are installed).
load helper

@test "neighbourhoods, types, radius maps, positions, missing samples, deconvolution in boxes: as their references" {
    for PYTHON in python3 /usr/bin/python3 none; do
        if "$PYTHON" -c 'import numpy, scipy' 2>/dev/null; then break; fi
    done
    [ "$PYTHON" != none ] || skip "no Python 3 with NumPy and SciPy"
    export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$BATS_TEST_TMPDIR
    ok "$PYTHON" "$ROOT/tests/bench/references.py" "$BUILD"
    [[ "$output" == *"| missing samples |"* && "$output" == *"| memory |"* && "$output" == *"0 differ"* ]]
    [[ "$output" != *DIFFERS* ]]
}
