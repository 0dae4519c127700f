// The table of entry points against the CUDA headers that it is compiled with.

#include "src/preload/table.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "src/preload/caller.h"
#include "src/preload/module_symbols.h"

namespace pinring::preload {
namespace {

std::string ReadHeader(const std::string& name) {
  std::ifstream file(std::string(PINRING_CUDA_INCLUDE_DIR "/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whether parameters like these can name host memory. Those of the forms with
// 32-bit addresses cannot.
bool MayNameHostMemory(const std::string& parameters) {
  static const auto& memory = *new std::regex(
      R"(void\s*\*|CUdeviceptr|CUDA_MEMCPY|CUDA_MEMSET|NODE_PARAMS)"
      R"(|CUgraphNodeParams|CUlaunchConfig|CUDA_LAUNCH_PARAMS)"
      R"(|CUDA_RESOURCE_DESC|CUstreamBatchMemOpParams|CUmemDecompressParams)"
      R"(|CUtensorMap\b|CUmemcpy)");
  return std::regex_search(parameters, memory) &&
         parameters.find("CUdeviceptr_v1") == std::string::npos &&
         parameters.find("_MEMCPY2D_v1") == std::string::npos &&
         parameters.find("_MEMCPY3D_v1") == std::string::npos;
}

// The names of the table, and of those with wrappers every form.
struct Names {
  std::set<std::string> all;
  std::set<std::string> passed;
  std::set<std::string> forms;
};

std::string Form(const std::string& name, int version, bool per_thread) {
  return name + " of version " + std::to_string(version) +
         (per_thread ? ", per thread" : "");
}

Names TableNames() {
  Names names;
  for (int row = 0; row < kRows; ++row) {
    const RowInfo& info = kRowTable[row];
    names.all.insert(info.name);
    names.forms.insert(Form(info.name, info.version, info.per_thread));
  }
  for (int i = 0; i < kPassedCount; ++i) {
    names.all.insert(kPassedNames[i]);
    names.passed.insert(kPassedNames[i]);
  }
  return names;
}

TEST(PreloadTableTest, NamesEveryEntryPointOfTheHeaderThatTakesHostMemory) {
  const std::string header = ReadHeader("cuda.h");
  const Names names = TableNames();
  static const auto& declaration =
      *new std::regex(R"(CUresult\s+CUDAAPI\s+(cu[A-Za-z0-9]+?)(?:_v[0-9]+)?)"
                      R"((?:_pts[zd])?\s*\(([^;]*)\);)");
  int found = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end;
       it != end; ++it) {
    if (!MayNameHostMemory((*it)[2])) continue;
    ++found;
    EXPECT_TRUE(names.all.count((*it)[1]) > 0)
        << (*it)[1] << "(" << (*it)[2]
        << ") is not in src/preload/table.h: add a row that says what becomes "
           "of staged blocks";
  }
  EXPECT_GT(found, 150);
}

TEST(PreloadTableTest, WrapsEveryFormOfTheHeader) {
  const std::string header = ReadHeader("cudaTypedefs.h");
  const Names names = TableNames();
  static const auto& declaration = *new std::regex(
      R"(PFN_(cu[A-Za-z0-9]+)_v([0-9]+)(_pts?d?[sz])?\)\(([^;]*)\);)");
  int found = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end;
       it != end; ++it) {
    const std::string name = (*it)[1];
    if (!MayNameHostMemory((*it)[4]) || names.passed.count(name) > 0) continue;
    ++found;
    const std::string form =
        Form(name, std::stoi((*it)[2]), (*it)[3].length() > 0);
    EXPECT_TRUE(names.forms.count(form) > 0)
        << form << " is not in src/preload/table.h";
  }
  EXPECT_GT(found, 120);
}

TEST(PreloadTableTest, NamesEachSymbolOnce) {
  std::map<std::string, int> rows;
  for (int row = 0; row < kRows; ++row) ++rows[kRowTable[row].symbol];
  for (const auto& [symbol, count] : rows) EXPECT_EQ(count, 1) << symbol;
  const Names names = TableNames();
  for (int row = 0; row < kRows; ++row) {
    EXPECT_EQ(names.passed.count(kRowTable[row].name), 0u)
        << kRowTable[row].name << " has a wrapper and passes";
  }
}

TEST(PreloadSymbolsTest, AreThoseThatDlsymFinds) {
  void* const library = dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const link_map* const module = ModuleOf(dlsym(library, "floor"));
  ASSERT_NE(module, nullptr);
  EXPECT_NE(std::string(module->l_name).find("libm.so.6"), std::string::npos);
  const ModuleSymbols symbols(*module);
  for (const char* const name :
       {"lgamma_r", "tgamma", "frexpl", "nextafterl"}) {
    EXPECT_EQ(symbols.Find(name), dlsym(library, name)) << name;
  }
  // Of another library, of none, and one that it only uses.
  for (const char* const name : {"cuInit", "", "no_such_function", "abort"}) {
    EXPECT_EQ(symbols.Find(name), nullptr) << name;
  }
  const int on_the_stack = 0;
  EXPECT_EQ(ModuleOf(&on_the_stack), nullptr);
}

TEST(PreloadSymbolsTest, TheLibraryExportsTheTableAndDlsymAlone) {
  void* const library = dlopen(PINRING_PRELOAD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const ModuleSymbols symbols(*ModuleOf(dlsym(library, "cuMemHostAlloc")));
  EXPECT_NE(symbols.Find("dlsym"), nullptr);
  for (int row = 0; row < kRows; ++row) {
    EXPECT_NE(symbols.Find(kRowTable[row].symbol), nullptr)
        << kRowTable[row].symbol;
  }
  for (const char* const name :
       {"cuInit", "cuCtxGetCurrent", "cuGetExportTable", "pinringMallocHost",
        "pinring_preload_dlsym", "_ZN4absl12lts_202206235Mutex4LockEv", "_Znwm",
        "__cxa_throw", "_Unwind_Backtrace"}) {
    EXPECT_EQ(symbols.Find(name), nullptr) << name;
  }
}

TEST(PreloadCallerTest, CategoriesAreNamesOfPackagesOrLibraries) {
  const std::map<std::string, std::string> paths = {
      {"/usr/lib/python3/dist-packages/torch/lib/libc10_cuda.so", "torch"},
      {"/venv/lib/python3.11/site-packages/cupy_backends/cuda/api/"
       "runtime.cpython-311-x86_64-linux-gnu.so",
       "cupy"},
      {"/venv/lib/python3.11/site-packages/jaxlib/xla_extension.so", "jaxlib"},
      {"/venv/lib/python3.11/site-packages/lone.cpython-311-x86_64.so", "lone"},
      {"/opt/app/lib/libworker.so.3", "worker"},
      {"/opt/app/bin/simulate", "simulate"},
      {"/opt/app/plugin.cpython-311-x86_64-linux-gnu.so", "plugin"},
      {"simulate", "simulate"},
  };
  for (const auto& [path, category] : paths) {
    EXPECT_EQ(CategoryOfPath(path), category) << path;
  }
}

TEST(PreloadCallerTest, PassesOverCudaItself) {
  EXPECT_TRUE(IsCudaLibrary("libcuda.so.1"));
  EXPECT_TRUE(IsCudaLibrary("libcuda.so.580.159.04"));
  EXPECT_TRUE(IsCudaLibrary("libcudart.so.13"));
  EXPECT_TRUE(IsCudaLibrary("libcudart-d0da41ae.so.11.0"));
  EXPECT_FALSE(IsCudaLibrary("libcublas.so.13"));
  EXPECT_FALSE(IsCudaLibrary("libc10_cuda.so"));
}

TEST(PreloadCallerTest, FindsWhoCalled) {
  const Caller caller = FindCaller();
  // Here FindCaller is part of the program, so that its caller is beyond it.
  EXPECT_EQ(caller.library, "libc.so.6");
  EXPECT_EQ(caller.category, "c");
}

}  // namespace
}  // namespace pinring::preload
