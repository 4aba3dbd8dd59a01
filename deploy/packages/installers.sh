#!/usr/bin/env bash
# Writes how others install a release into the directory OUT (default dist), which has its tar files and SHA256SUMS:
#
#   OUT=dist deploy/packages/installers.sh https://example.org/rollcall/v0.1.0
#
#   install.sh    a script for sh: it downloads the tar file of the machine's system, compares its checksum, and installs the binary
#   rollcall.rb   a formula for Homebrew
#
# The URL is that of the directory with the tar files. Both files have the checksums in them, so the place of the tar files need
# not be trusted.
set -euo pipefail
cd "$(dirname "$0")/../.."

refuse() { echo "installers: $1" >&2; exit 2; }
url=${1:-}
[[ $url =~ ^(https?|file)://[A-Za-z0-9./_~:%@-]+$ ]] || refuse "the URL is \"$url\"; it must be that of the directory with the tar files, such as https://example.org/rollcall/v0.1.0"
out=${OUT:-dist}
[ -e "$out/SHA256SUMS" ] || refuse "$out has no SHA256SUMS: run make packages, or name its directory in OUT"
sums=$(sed -nE 's/^([0-9a-f]{64})  (rollcall-.*-(linux|darwin|freebsd)-(amd64|arm64)\.tar\.gz)$/\1 \2/p' "$out/SHA256SUMS")
[ -n "$sums" ] || refuse "$out/SHA256SUMS names no tar file"
version=$(sed -nE '1s/^[0-9a-f]+ rollcall-(.*)-(linux|darwin|freebsd)-(amd64|arm64)\.tar\.gz$/\1/p' <<<"$sums")

cat >"$out/install.sh" <<EOF
#!/bin/sh
# Installs rollcall $version into PREFIX/bin (default /usr/local/bin), after a check of what it downloads. It changes nothing else.
set -eu
url=$url
sums='$sums'
prefix=\${PREFIX:-/usr/local}
EOF
cat >>"$out/install.sh" <<'EOF'

fail() { echo "install: $1" >&2; exit 1; }
system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
  x86_64 | amd64) processor=amd64 ;;
  aarch64 | arm64) processor=arm64 ;;
  *) processor=$(uname -m) ;;
esac
line=$(printf '%s\n' "$sums" | grep -e "-$system-$processor\.tar\.gz\$") ||
  fail "there is no binary for $system on $processor; build it from source"
sum=${line%% *} file=${line#* }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v curl >/dev/null; then
  curl -fsSL -o "$work/$file" "$url/$file" || fail "$url/$file cannot be downloaded"
elif command -v wget >/dev/null; then
  wget -q -O "$work/$file" "$url/$file" || fail "$url/$file cannot be downloaded"
else
  fail "neither curl nor wget is installed; install one of them"
fi
if command -v sha256sum >/dev/null; then
  found=$(sha256sum "$work/$file")
elif command -v shasum >/dev/null; then
  found=$(shasum -a 256 "$work/$file")
else
  found=$(sha256 -q "$work/$file")
fi
[ "${found%% *}" = "$sum" ] || fail "$url/$file has the checksum ${found%% *}, and must have $sum; nothing was installed"
tar -xzf "$work/$file" -C "$work"
mkdir -p "$prefix/bin"
cp "$work/${file%.tar.gz}/rollcall" "$prefix/bin/rollcall.part"
chmod 755 "$prefix/bin/rollcall.part"
mv "$prefix/bin/rollcall.part" "$prefix/bin/rollcall"
echo "installed $prefix/bin/rollcall"
EOF
chmod 755 "$out/install.sh"

# of SYSTEM PROCESSOR NAME prints the lines of the formula for a machine. NAME is Homebrew's for the processor.
of() {
  local sum file
  read -r sum file < <(grep -e "-$1-$2\.tar\.gz\$" <<<"$sums") || return 0
  printf '    on_%s do\n      url "%s/%s"\n      sha256 "%s"\n    end\n' "$3" "$url" "$file" "$sum"
}
{
  printf 'class Rollcall < Formula\n  desc "Coordination ensemble that speaks the protocol of ZooKeeper"\n  version "%s"\n' "$version"
  printf '  license "Apache-2.0"\n'
  printf '\n  on_macos do\n'; of darwin arm64 arm; of darwin amd64 intel
  printf '  end\n\n  on_linux do\n'; of linux arm64 arm; of linux amd64 intel
  printf '  end\n\n  def install\n    bin.install "rollcall"\n    man1.install Dir["man/*.1"]\n'
  printf '    bash_completion.install "completions/rollcall.bash" => "rollcall"\n'
  printf '    zsh_completion.install "completions/rollcall.zsh" => "_rollcall"\n    fish_completion.install "completions/rollcall.fish"\n'
  printf '  end\n\n  test do\n    assert_match "rollcall #{version}", shell_output("#{bin}/rollcall version")\n  end\nend\n'
} >"$out/rollcall.rb"
echo "$out/install.sh and $out/rollcall.rb"
