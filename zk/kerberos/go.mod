module rollcall/zk/kerberos

go 1.26.0

require (
	github.com/jcmturner/gofork v1.7.6 // the ASN.1 of gokrb5
	github.com/jcmturner/gokrb5/v8 v8.4.4
)

require (
	github.com/hashicorp/go-uuid v1.0.3 // indirect
	github.com/jcmturner/aescts/v2 v2.0.0 // indirect
	github.com/jcmturner/dnsutils/v2 v2.0.0 // indirect
	github.com/jcmturner/rpc/v2 v2.0.3 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
)
