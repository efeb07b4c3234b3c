#!/usr/bin/env bash
# scratch: not committed
cd "$(dirname "$0")/../.."
L=build-gpu/launcher/gpurun; P=build-gpu/tests/bench/gpurun-perf
export LD_LIBRARY_PATH=build-gpu/carry
p() { timeout 60 env $1 $L -n 2 --device=cuda --oversubscribe --mps=${mps:-off} $P "${@:2}" 2>&1 | grep -v '^# [rg0-9am]'; }
echo "== default"; p A=1 latency --order stream --sizes 8,64K,65K,128K,256K,1M,2M,4M,8M,16M,64M,256M --iterations 300 --against copy
echo "== mail 64K"; p GPURUN_MAIL_BYTES=64K latency --order stream --sizes 65K,128K,256K,1M,2M,4M --iterations 300 --against copy
echo "== mail 64K no kernel"; p "GPURUN_MAIL_BYTES=64K GPURUN_KERNEL_COPY_BYTES=0" latency --order stream --sizes 128K,1M,4M,8M,16M --iterations 300 --against copy
echo "== bandwidth"; p A=1 bandwidth bidirectional --order both --sizes 64M,256M --against copy,nccl --iterations 20
if [[ $1 == all ]]; then
export CUDA_VISIBLE_DEVICES=0
echo "== one GPU mps"; mps=on p A=1 latency --order stream --sizes 8,4K,64K,1M,4M,256M --iterations 200 --against copy
echo "== one GPU mps bw"; mps=on p A=1 bandwidth --order both --sizes 256M --iterations 20 --against copy
fi
