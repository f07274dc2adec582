"""Records a trace of a training step for `pxnbench replay --from-trace`: torchrun --nproc-per-node 2 examples/trace_step.py"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
layers = [torch.nn.Linear(4096, 4096) for _ in range(8)]  # your model
model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
batch = torch.randn(512, 4096, device="cuda")
for _ in range(5):  # DDP forms its buckets anew after the first step
    model(batch).sum().backward()
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
    model(batch).sum().backward()
    torch.cuda.synchronize()
trace.export_chrome_trace(f"trace-{dist.get_rank()}.json")
dist.destroy_process_group()
