# What the conformance suite does not express as pairs of programs: which CTest entries test it. The entry
# conformance_elsewhere looks whether they exist.

# Rule of the contract | CTest entry, or words | what
set(conformance_elsewhere
    "2|cases_test|8 GiB behind one gate"
    "3|engine_schedule_test|seeded schedules of the engine"
    "3|stress_test|threads beside allocation and loading"
    "5|capi_copy_test|pageable copies of the C++ API"
    "6|program_compat_per_thread_test|units with the per-thread stream"
    "8|cases_test|slots of destroyed streams"
    "10|capi_exit_test|the end of the process"
    "11|cases_test|beyond 4 GiB"
    "14|staged_block_test|fresh blocks are zero, costs"
    "16|capi_test|promotion is counted"
    "18|small_pool_test|the small-block pool"
    "20|cases_test|each way that pinning is refused"
    "20|wddm_test|no retries on WDDM"
    "21|fault_sweep_test|a fault at every driver call"
    "21|engine_fault_schedule_test|faults under seeded schedules"
    "22|budget_test|the limit"
    "22|capi_test|pinned bytes, counted at the driver"
    "24|variant launch_blocking|every scenario that can end in it")

# Case | its scenarios here, or CTest entries
set(conformance_cases
    "1|down_then_up, down_then_up_large"
    "2|reads_when_reached"
    "3|waits_for_nothing_else, legacy_waits_for_blocking, every_observer"
    "4|never_swapped (variant one_slot)"
    "5|freed_while_queued, more_than_the_ring_behind_a_gate, CTest cases_test"
    "6|many_threads, side_by_side, CTest stress_test"
    "6b|oldest_held, CTest cases_test"
    "7|bytes_of_the_moment"
    "8|device_pointer, mapped_memory, small_blocks, CTest capi_test"
    "9|per_thread_streams"
    "10|any_range, CTest cases_test"
    "11|many_short_rows, long_rows, any_rows, any_box"
    "12|odd_allocations, nothing_to_copy"
    "13|variant no_ring, CTest cases_test"
    "14|CTest preload_true, preload_shell, preload_python, preload_lookups"
    "15|CTest preload_lookups_driver, preload_lookups_wrapped, preload_driver_api, preload_copies, preload_old_forms"
    "16|CTest usage_test, capi_test"
    "17|variant wddm, CTest wddm_test")
