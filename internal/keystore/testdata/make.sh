#!/usr/bin/env bash
# Writes the stores of this directory with openssl and Java's keytool. All passwords are "secret".
set -euo pipefail
cd "$(dirname "$0")"
rm -f ./*.pem ./*.p12 ./*.jks ./*.bin
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
days=36500

# authority.pem signs; member.pem is a key with its certificate, in the order of ZooKeeper's PEM stores.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tmp/ca.key" -out authority.pem -days $days -subj '/O=Roll/CN=authority' 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tmp/key" -out "$tmp/csr" -subj '/O=Roll/CN=member' 2>/dev/null
openssl x509 -req -in "$tmp/csr" -CA authority.pem -CAkey "$tmp/ca.key" -CAcreateserial -CAserial "$tmp/serial" -out "$tmp/cert" -days $days \
  -extfile <(echo 'subjectAltName=DNS:member.example,IP:127.0.0.1') 2>/dev/null
cat "$tmp/key" "$tmp/cert" authority.pem >member.pem

# The same key, encrypted, and in the older form of EC keys.
{ openssl pkcs8 -topk8 -v2 aes-256-cbc -in "$tmp/key" -passout pass:secret; cat "$tmp/cert"; } >encrypted.pem
{ openssl pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA512 -in "$tmp/key" -passout pass:secret; cat "$tmp/cert"; } >encrypted-sha512.pem
{ openssl ec -in "$tmp/key" 2>/dev/null; cat "$tmp/cert"; } >sec1.pem

# Stores of openssl, with its present and its former encryption.
openssl pkcs12 -export -inkey "$tmp/key" -in "$tmp/cert" -certfile authority.pem -name member -passout pass:secret -out openssl.p12
openssl pkcs12 -export -legacy -inkey "$tmp/key" -in "$tmp/cert" -certfile authority.pem -name member -passout pass:secret -out openssl-legacy.p12
openssl pkcs12 -export -nokeys -in authority.pem -passout pass:secret -out openssl-trust.p12

# Stores of keytool. Since Java 9 it writes PKCS12 whatever the file is called, unless it is told.
keytool() { command keytool -J-Xshare:auto "$@" 2>/dev/null; }
keytool -importkeystore -srckeystore openssl.p12 -srcstorepass secret -srcstoretype PKCS12 -destkeystore keytool.p12 -deststoretype PKCS12 -deststorepass secret
keytool -importkeystore -srckeystore openssl.p12 -srcstorepass secret -srcstoretype PKCS12 -destkeystore keytool.jks -deststoretype JKS -deststorepass secret
keytool -importcert -noprompt -alias Authority -file authority.pem -keystore keytool-trust.p12 -storetype PKCS12 -storepass secret
keytool -importcert -noprompt -alias Authority -file authority.pem -keystore keytool-trust.jks -storetype JKS -storepass secret
keytool -importcert -noprompt -alias authority -file authority.pem -keystore modern-trust.jks -storepass secret

# A key whose password is another than the store's.
keytool -importkeystore -srckeystore openssl.p12 -srcstorepass secret -srcstoretype PKCS12 -srcalias member -srckeypass secret -destkeystore own-password.jks -deststoretype JKS -deststorepass secret -destkeypass another

# Lists: nothing is revoked, and the member is.
mkdir "$tmp/db"; touch "$tmp/db/index"; echo 01 >"$tmp/db/number"
printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s/db/index\ncrlnumber=%s/db/number\ndefault_md=sha256\ndefault_crl_days=%s\n' "$tmp" "$tmp" $days >"$tmp/conf"
openssl ca -config "$tmp/conf" -gencrl -cert authority.pem -keyfile "$tmp/ca.key" -out nobody-revoked.pem 2>/dev/null
openssl ca -config "$tmp/conf" -revoke "$tmp/cert" -cert authority.pem -keyfile "$tmp/ca.key" 2>/dev/null
openssl ca -config "$tmp/conf" -gencrl -cert authority.pem -keyfile "$tmp/ca.key" -out revoked.pem 2>/dev/null
openssl crl -in revoked.pem -outform DER -out revoked.bin

# Certificates whose subjects are not easy to write.
subject=0
for name in '/C=CH/O=Ex/OU=Roll, call/CN=ann' '/DC=example/DC=com/UID=bob/CN=bob+emailAddress=bob@example.com' \
  '/CN= lead and trail  /serialNumber=12/street=Main; St "x"/title=Dr' '/CN=#hash = plus\+ <a> back\\slash/ST=Zürich/L=日本 a#b' \
  '/postalCode=8000/GN=G/SN=S/initials=I/dnQualifier=q/CN=x\/y'; do
  subject=$((subject + 1))
  openssl req -x509 -new -key "$tmp/key" -out subject$subject.pem -days $days -utf8 -multivalue-rdn -subj "$name"
done
