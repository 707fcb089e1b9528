"""The tables in SQLite exports of three releases of nsys: 2022.4.2, 2023.4.4 and 2025.3.2.

Source: real exports made with ``--lazy=false``. Each word is a column: ``name`` is INTEGER, ``name:TEXT`` and
``name:REAL`` have other types, and ``@2025`` is the first of the three releases that writes the column. NOT NULL is
left out, so that tests can write NULL anywhere.
"""

_ON_DEVICE = "start end deviceId contextId greenContextId@2023 streamId correlationId globalPid"
_CHAIN = "id symbol module kernelMode thumbCode unresolved specialEntry originalIP unwindMethod stackDepth"
_OPENACC = "start end nameId eventClass globalTid eventKind deviceType lineNo cuDeviceId cuContextId srcFile funcName"
_PAIR = "name:TEXT value:TEXT"

LAYOUTS = {
    "StringIds": "id:INTEGER_PRIMARY_KEY value:TEXT",
    "ANALYSIS_FILE": "id:INTEGER_PRIMARY_KEY filename:TEXT contentId globalPid",
    "ProcessStreams": "globalPid filenameId contentId",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT name:TEXT nameEnum value:TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": (
        "deviceId contextId greenContextId@2023 streamId correlationId globalPid eventId eventSyncId@2025"
    ),
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text:TEXT globalPid",
    "PROFILER_OVERHEAD": "start end globalTid nameId returnValue",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        f"{_ON_DEVICE} bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId"
        " dstContextId migrationCause graphNodeId virtualAddress copyCount@2025"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_ON_DEVICE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{_ON_DEVICE} demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ"
        " blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId"
        " sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_ON_DEVICE} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (f"{_ON_DEVICE} deprecatedSyncType@2025 syncType eventId eventSyncId@2025"),
    "CUDA_GRAPH_EVENTS": "start end eventClass globalTid nameId graphId originalGraphId graphExecId",
    "CUDA_GRAPH_NODE_EVENTS": "start end eventClass globalTid nameId graphNodeId originalGraphNodeId",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start globalPid deviceId contextId address pc bytes memKind memoryOperationType name:TEXT correlationId"
        " streamId@2025 localMemoryPoolAddress localMemoryPoolReleaseThreshold localMemoryPoolSize"
        " localMemoryPoolUtilizedSize importedMemoryPoolAddress importedMemoryPoolProcessId"
    ),
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start globalPid address originalFaultPc CpuInstruction module unresolvedFaultPc",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start end globalPid deviceId address numberOfPageFaults faultAccessType",
    "NVTX_EVENTS": (
        "start end eventType rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value"
        " int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT"
        " binaryData:TEXT@2025"
    ),
    "NVTX_PAYLOAD_SCHEMAS": "domainId schemaId name:TEXT type flags numEntries payloadSize alignTo",
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
    "OSRT_CALLCHAINS": _CHAIN,
    "SAMPLING_CALLCHAINS": _CHAIN,
    "COMPOSITE_EVENTS": "id start cpu threadState globalTid cpuCycles",
    "SCHED_EVENTS": "start cpu isSchedIn globalTid threadState@2025 threadBlock@2025",
    "GPU_METRICS": "rawTimestamp@2025 timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName:TEXT metricId metricName:TEXT",
    "PROCESSES": "globalPid pid name:TEXT",
    "ThreadNames": "nameId priority globalTid",
    "MPI_RANKS": "globalTid rank",
    "MPI_P2P_EVENTS": "start end globalTid textId commHandle tag remoteRank size requestHandle",
    "MPI_COLLECTIVES_EVENTS": "start end globalTid textId commHandle rootRank size recvSize requestHandle",
    "MPI_START_WAIT_EVENTS": "start end globalTid textId requestHandle",
    "MPI_OTHER_EVENTS": "start end globalTid textId",
    "UCP_SUBMIT_EVENTS": "start end globalTid textId bufferAddr packedSize peerWorkerUid tag",
    "UCP_PROGRESS_EVENTS": "start end globalTid textId bufferAddr packedSize peerWorkerUid tag",
    "UCP_EVENTS": "start end globalTid textId",
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": f"{_OPENACC} bytes varName",
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": f"{_OPENACC} numGangs numWorkers vectorLength kernelName",
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": _OPENACC,
    "TARGET_INFO_GPU": (
        "vmId id name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount"
        " pwGpuId uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT ctrlDevPath:TEXT revision nodeMask"
        " constantMemory maxIPC maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm"
        " maxRegistersPerSm threadsPerWarp asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock"
        " maxBlockDimX maxBlockDimY maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ"
        " computeMajor computeMinor smMajor smMinor"
    ),
    # Releases before 2022 describe GPUs here.
    "TARGET_INFO_CUDA_GPU": (
        "deviceId name:TEXT pciBusId:TEXT computeCapabilityMajor computeCapabilityMinor numMultiprocessors"
        " globalMemorySize maxWarpsPerMultiprocessor maxBlocksPerMultiprocessor maxRegistersPerMultiprocessor"
        " maxSharedMemoryPerMultiprocessor globalMemoryBandwidth l2CacheSize coreClockRate"
    ),
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "nullStreamId hwId vmId processId deviceId contextId parentContextId isGreenContext"
    ),
    "TARGET_INFO_CUDA_STREAM": "streamId hwId vmId processId contextId priority flag",
    "META_DATA_CAPTURE": _PAIR,
    "META_DATA_EXPORT": _PAIR,
    "EXPORT_META_DATA": _PAIR,
}

# The first of the three releases that has the table, if it is not 2022.
FIRST_RELEASE = {
    "ANALYSIS_FILE": 2025,
    "DIAGNOSTIC_EVENT": 2025,
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": 2025,
    "CUDA_GRAPH_NODE_EVENTS": 2025,
    "NVTX_PAYLOAD_SCHEMAS": 2025,
    "TARGET_INFO_CUDA_DEVICE": 2025,
    "GPU_METRICS": 2023,
    "TARGET_INFO_GPU_METRICS": 2023,
    "TARGET_INFO_CUDA_CONTEXT_INFO": 2023,
    "META_DATA_CAPTURE": 2023,
    "META_DATA_EXPORT": 2023,
}

ENUMS: dict[str, dict[int, tuple[str, str]]] = {
    "ENUM_CUDA_MEMCPY_OPER": {
        1: ("CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        2: ("CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        8: ("CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        10: ("CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        11: ("CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        12: ("CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        13: ("CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
    },
    "ENUM_CUDA_MEM_KIND": {
        0: ("CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        1: ("CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        2: ("CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        3: ("CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
        4: ("CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        5: ("CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
        6: ("CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
        7: ("CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    },
}

NSYS_VERSIONS = {2022: ("2022.4.2.1", "3.0.0"), 2023: ("2023.4.4.54", "3.7.2"), 2025: ("2025.3.2.0", "3.20.3")}


def columns_of(table: str, release: int) -> dict[str, str]:
    """Return the columns of a table and their SQL types, in the order of that release."""
    found = {}
    for word in LAYOUTS[table].split():
        column, _, since = word.partition("@")
        name, _, kind = column.partition(":")
        if not since or int(since) <= release:
            found[name] = kind.replace("_", " ") or "INTEGER"
    return found
