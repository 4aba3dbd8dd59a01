// Package zk has the programming interface of github.com/go-zookeeper/zk 1.0.4 over package client. A program that uses
// that library changes its import to try this client:
//
//	import "rollcall/client/zk"
//
// Everything that its documentation names is here, apart from the four-letter commands (FLWSrvr, FLWRuok, FLWCons) and
// the records and codes of the protocol. Its own tests of clients pass on this package.
//
// These things differ:
//
//   - Names of servers are resolved at each dial. NewDNSHostProvider returns the provider that does so.
//   - A connection counts as one, with StateHasSession, when the identities of AddAuth have been accepted on it.
//   - WithMaxConnBufferSize has no effect: requests have no limit but that of the servers.
//
// New programs use package client: its calls have contexts, its errors say whether a write may have been carried out,
// and its locks have fencing tokens.
package zk
