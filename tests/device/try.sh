#!/usr/bin/env bash
# scratch: not committed
cd "$(dirname "$0")/../.."
L=build-gpu/launcher/gpurun; P=build-gpu/tests/bench/gpurun-perf
export LD_LIBRARY_PATH=build-gpu/carry
p() { timeout 60 env $1 $L -n 2 --device=cuda --oversubscribe --mps=${mps:-off} $P "${@:2}" 2>&1; }
echo "== default"; p A=1 latency --order both --sizes 8,1K,4K,8K,16K,64K,256K,1M,4M,16M,64M --against copy,nccl --iterations 300
echo "== mail 8K"; p GPURUN_MAIL_BYTES=8K latency --order both --sizes 16K,64K --iterations 300
echo "== no mail"; p GPURUN_MAIL_BYTES=0 latency --order both --sizes 8,4K,8K --iterations 300
echo "== no kernel copy"; p GPURUN_KERNEL_COPY_BYTES=0 latency --order both --sizes 256K,1M,4M,16M,64M --iterations 300
echo "== kernel copy all"; p GPURUN_KERNEL_COPY_BYTES=1G latency --order both --sizes 32M,64M --iterations 300
echo "== rate, call"; p A=1 rate call --order both --sizes 8,4K --iterations 100
echo "== validate"; p A=1 latency bandwidth --validate --sizes 8,100,64K,1M --iterations 50
if [[ $1 == all ]]; then
export CUDA_VISIBLE_DEVICES=0
echo "== one GPU no mps"; p A=1 latency --sizes 8,64K,1M,64M --iterations 50 --against copy
echo "== one GPU mps"; mps=on p A=1 latency --order both --sizes 8,4K,64K,1M,4M,64M,256M --iterations 200 --against copy
fi
