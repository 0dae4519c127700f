#include "src/preload/table.h"

#include <iterator>

namespace pinring::preload {

#define PINRING_PRELOAD_INFO(symbol, name, version, action, handler) \
  {#symbol, #name, version, false, Action::action},
#define PINRING_PRELOAD_INFOS(symbol, name, version, form, form_version, \
                              action, handler)                           \
  {#symbol, #name, version, false, Action::action},                      \
      {#symbol "_" #form, #name, form_version, true, Action::action},
const RowInfo kRowTable[] = {
    PINRING_PRELOAD_ROWS(PINRING_PRELOAD_INFO, PINRING_PRELOAD_INFOS)};
#undef PINRING_PRELOAD_INFO
#undef PINRING_PRELOAD_INFOS

#define PINRING_PRELOAD_NAME(name) #name,
const char* const kPassedNames[] = {
    PINRING_PRELOAD_PASSED(PINRING_PRELOAD_NAME)};
#undef PINRING_PRELOAD_NAME
const int kPassedCount = static_cast<int>(std::size(kPassedNames));

}  // namespace pinring::preload
