"""Processes with models of their own, for start_multi_process_pool() and device=[...]."""

import itertools
import multiprocessing
import queue

import fovea

_calls = itertools.count()


def _work(kind, arguments, threads, jobs, results):
    fovea.set_num_threads(threads)
    model = None
    while True:
        call, number, method, inputs, options, state = jobs.get()
        try:
            model = model or kind(**arguments)
            model._set_state(**state)
            results.put((call, number, getattr(model, method)(inputs, **options), None))
        except Exception as error:
            results.put((call, number, None, f"{type(error).__name__}: {error}"))


def start(kind, arguments, count):
    context = multiprocessing.get_context("spawn")
    threads = fovea.get_num_threads()
    count = count or threads
    jobs, results = context.Queue(), context.Queue()
    processes = [
        context.Process(target=_work, args=(kind, arguments, max(1, threads // count), jobs, results), daemon=True)
        for _ in range(count)
    ]
    for process in processes:
        process.start()
    return {"input": jobs, "output": results, "processes": processes}


def stop(pool):
    for process in pool["processes"]:
        process.terminate()
    for process in pool["processes"]:
        process.join()
        process.close()
    for name in ("input", "output"):
        pool[name].close()


def run(pool, method, inputs, size, progress, options, state):
    if not isinstance(pool, dict) or not {"input", "output", "processes"} <= pool.keys():
        raise TypeError("pool must be what start_multi_process_pool() returned")
    processes = pool["processes"]
    size = size or min(-(-len(inputs) // len(processes) // 10) or 1, 5000)
    chunks = [inputs[i : i + size] for i in range(0, len(inputs), size)]
    this = next(_calls)
    for number, chunk in enumerate(chunks):
        pool["input"].put((this, number, method, chunk, options, state))
    found = {}
    while len(found) < len(chunks):
        try:
            call, number, result, error = pool["output"].get(timeout=1)
        except queue.Empty:
            if dead := [p for p in processes if not p.is_alive()]:
                raise RuntimeError(f"a process of the pool has ended, exit code {dead[0].exitcode}") from None
            continue
        if call != this:  # of a call that failed or was interrupted
            continue
        if error:
            raise RuntimeError(f"a process of the pool: {error}")
        found[number] = result
        progress.add(len(chunks[number]))
    progress.close()
    return [found[number] for number in range(len(chunks))]
