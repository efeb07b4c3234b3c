/* A tool that reads NVTX: counts the ranges of the domain "gpurun" and prints how many there were, when the process
 * ends.
 *
 * NVTX loads it where NVTX_INJECTION64_PATH names it, and asks it for the functions that it wants to have called. */
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <string.h>

static unsigned pushes, pops, with_payload, named_categories;
static unsigned long long bytes;
static char names[4096];
static int domain;

static nvtxDomainHandle_t create_domain(const char* name) {
    return strcmp(name, "gpurun") == 0 ? (nvtxDomainHandle_t)&domain : (nvtxDomainHandle_t)0;
}

static void name_category(nvtxDomainHandle_t in, uint32_t category, const char* name) {
    if (in == (nvtxDomainHandle_t)&domain && category > 0 && name[0] != '\0')
        ++named_categories;
}

static int push(nvtxDomainHandle_t in, const nvtxEventAttributes_t* range) {
    if (in != (nvtxDomainHandle_t)&domain || range->messageType != NVTX_MESSAGE_TYPE_ASCII)
        return -1;
    ++pushes;
    if (range->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) {
        ++with_payload;
        bytes += range->payload.ullValue;
    }
    if (strlen(names) + strlen(range->message.ascii) + 16 < sizeof names)
        sprintf(names + strlen(names), " %s/%u", range->message.ascii, (unsigned)range->category);
    return 0;
}

static int pop(nvtxDomainHandle_t in) {
    if (in == (nvtxDomainHandle_t)&domain)
        ++pops;
    return 0;
}

__attribute__((destructor)) static void report(void) {
    fprintf(stderr, "nvtx: %u pushes, %u pops, %u payloads of %llu bytes, %u categories:%s\n", pushes, pops,
            with_payload, bytes, named_categories, names);
}

/* What NVTX calls, by the layout of nvtxDetail/nvtxTypes.h. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

static void take(NvtxFunctionTable table, unsigned int size, unsigned int id, NvtxFunctionPointer function) {
    if (id < size && table[id] != NULL)
        *table[id] = function;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    take(table, size, NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create_domain);
    take(table, size, NVTX_CBID_CORE2_DomainNameCategoryA, (NvtxFunctionPointer)name_category);
    take(table, size, NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)push);
    take(table, size, NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)pop);
    return 1;
}
