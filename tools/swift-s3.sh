#!/usr/bin/env bash
# A real S3 server for tests: OpenStack Swift with its s3api, unpacked from Debian 13's packages into
# a folder. Nothing is installed and no root is needed; the Debian or Ubuntu below only needs apt.
#   tools/swift-s3.sh FOLDER PORT     the first run downloads about 66 MB; in the foreground until it is ended
# Credentials test:tester / testing, region us-east-1, path style.
set -euo pipefail
folder=$(realpath -m "$1")
port=$2
root=$folder/root
python_home=$root/usr

unpack() {
  local apt=$folder/apt mirror package
  rm -rf "$apt" "$root"
  mkdir -p "$apt"/{lists/partial,cache/archives/partial,etc/apt.conf.d,etc/preferences.d} "$root"
  touch "$apt/status"
  # the same mirror as the machine's own sources
  # shellcheck disable=SC2016 -- apt fills the placeholder in
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' | head -1)
  [ -n "$mirror" ] || { echo "swift-s3: apt knows no Debian mirror; run apt-get update first" >&2; exit 1; }
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$apt/etc/sources.list"
  local options=(-qq -o "Dir::Etc=$apt/etc" -o "Dir::Etc::sourcelist=$apt/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
    -o Debug::NoLocking=1 -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install --no-install-recommends --download-only -y \
    swift-proxy swift-account swift-container swift-object libc6 base-files
  for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$apt"
  touch "$folder/.ready"
}
[ -e "$folder/.ready" ] || unpack

# the unpacked Python runs on the unpacked C library, whatever the machine has
libraries=$root/usr/lib/$(uname -m)-linux-gnu
python=("$libraries"/ld-linux-*.so.* --library-path "$libraries" "$(ls "$root"/usr/bin/python3.?? | head -1)")
export PYTHONHOME=$python_home PYTHONPATH=$python_home/lib/python3/dist-packages

config=$folder/conf-$port
rm -rf "$folder/data" "$config"
mkdir -p "$config" "$folder/data/disk"
printf '%s\n' '[swift-hash]' 'swift_hash_path_prefix = t' 'swift_hash_path_suffix = t' \
  '[storage-policy:0]' 'name = Policy-0' 'default = yes' > "$config/swift.conf"
common() { # port
  printf '%s\n' '[DEFAULT]' 'bind_ip = 127.0.0.1' "bind_port = $1" "user = $(id -un)" "swift_dir = $config" \
    'workers = 0' 'log_level = WARNING'
}
server_port=$port
for server in account container object; do
  server_port=$((server_port + 1))
  {
    common "$server_port"
    printf '%s\n' "devices = $folder/data" 'mount_check = false' \
      '[pipeline:main]' "pipeline = $server-server" "[app:$server-server]" "use = egg:swift#$server"
  } > "$config/$server.conf"
  for step in "create 4 1 0" "add r1z1-127.0.0.1:$server_port/disk 1" rebalance; do
    # shellcheck disable=SC2086 -- each step is several words
    (cd "$config" && "${python[@]}" "$root/usr/bin/swift-ring-builder" "$server.builder" $step > "$config/rings.log")
  done
done
{
  common "$port"
  cat << 'CONFIG'
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth copy slo dlo versioned_writes symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:cache]
use = egg:swift#memcache
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_object_versioning = true
CONFIG
  for filter in catch_errors gatekeeper healthcheck listing_formats bulk copy slo dlo symlink; do
    printf '%s\n' "[filter:$filter]" "use = egg:swift#$filter"
  done
} > "$config/proxy.conf"

# Swift looks for swift.conf in /etc/swift before it has read where else it might be
start='import runpy, sys
from swift.common import utils
utils.set_swift_dir(sys.argv.pop(1))
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")'
pids=()
trap 'kill "${pids[@]}" 2> /dev/null; rm -rf "$config"' EXIT
trap 'exit 1' INT TERM
for server in account container object proxy; do
  "${python[@]}" -c "$start" "$config" "$root/usr/bin/swift-$server-server" "$config/$server.conf" \
    > "$folder/$server.log" 2>&1 &
  pids+=($!)
done
for _ in $(seq 300); do
  if curl --silent --max-time 1 --output /dev/null "http://127.0.0.1:$port/healthcheck"; then
    echo "S3 on http://127.0.0.1:$port"
    wait
  fi
  sleep 0.1
done
echo "swift-s3: it did not start; see $folder/proxy.log" >&2
exit 1
