#!/bin/sh
# with_torch.sh yes|no COMMAND...: runs the command where PyTorch is installed; else the test is skipped.
if [ "$1" = no ]; then
    echo "skipped: PyTorch is not installed; ./dev test --all installs it (5 GB)"
    exit 77
fi
shift
exec "$@"
