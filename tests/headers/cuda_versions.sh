#!/usr/bin/env bash
# Compiles the public headers, and the sources that include CUDA's, with the headers of the CUDA versions below:
#
#   cuda_versions.sh <folder to download to> <compile jobs>
#
# Nothing is linked or run: the driver's entry points are found at run time, so the headers are all that differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly folder=$1 jobs=$2

# <version>: <the packages on PyPI that hold its headers, the compiler's crt/ among them>
readonly versions=(
  '11.8: nvidia-cuda-runtime-cu11==11.8.89 nvidia-cuda-nvcc-cu11==11.8.89'
  '12.8: nvidia-cuda-runtime-cu12==12.8.90 nvidia-cuda-nvcc-cu12==12.8.93'
  '13.5: nvidia-cuda-runtime==13.5.37 nvidia-cuda-crt==13.5.37'
)

# Unpacks the headers of the packages in <folder>/<version>, unless they are there.
fetch() {
  local target=$folder/$1 package
  shift
  [[ -f $target/cuda.h && -f $target/crt/host_defines.h ]] && return
  rm -rf "$target" "$target.new"
  mkdir -p "$target.new/wheels"
  for package; do
    python3 -m pip download --quiet --no-deps --dest "$target.new/wheels" "$package"
  done
  python3 - "$target.new" << 'PYTHON'
import glob, os, sys, zipfile
target = sys.argv[1]
for wheel in glob.glob(target + "/wheels/*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, inside = name.partition("/include/")
            if not found or name.endswith("/"):
                continue
            path = os.path.join(target, inside)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(archive.read(name))
PYTHON
  rm -r "$target.new/wheels"
  mv "$target.new" "$target"
}

# All sources but those for other systems, the layers that know nothing of CUDA, and the simulated device's libraries,
# which are only for tests and are built from CUDA 12.8 on.
sources() {
  git ls-files --cached --others --exclude-standard 'src/*.cc' |
    grep -vE '^src/(os|copy|usage|simcuda/shared)/|_windows\.cc$'
}

for entry in "${versions[@]}"; do
  version=${entry%%:*}
  read -ra packages <<< "${entry#*:}"
  fetch "$version" "${packages[@]}"
  echo "CUDA $version"
  cmake "-DSOURCE=$PWD" "-DCUDA=$folder/$version" -DCOMPILERS=g++ -P tests/headers/check.cmake
  sources | xargs -P "$jobs" -n 1 \
    g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. -Iinclude -isystem "$folder/$version"
done
