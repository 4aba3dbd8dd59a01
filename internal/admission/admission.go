// Package admission decides which work a server takes on, and which work waits or is rejected:
//
//   - SessionThrottle limits how many sessions are opened and resumed. Its tokens are a rate.Limiter.
//   - Slots limits how much work of one kind is done at a time: TLS handshakes that compute, and sessions that are created. It is a
//     semaphore.Weighted.
//   - HandshakeLimiter limits TLS handshakes under way.
//   - ConnectionLimiter limits connections, in all and of one address.
//   - CredentialLimiter slows the addresses that wrong credentials come from. Each has a rate.Limiter.
//   - LogLimiter limits log lines that strangers can cause. It is a rate.Limiter.
//   - Memory rejects writes that add data while the process is short of memory.
//
// # What the libraries do not do
//
// A rate.Limiter is filled all the time, and ZooKeeper's throttle once in each FillTime: SessionThrottle rounds the time that it passes
// to the limiter down. A limiter knows one kind of event. It has no credit for clients that come back for a session, and no early drop by
// chance (BLUE); SessionThrottle decides both, and has the limiter only count. Neither a limiter nor a semaphore takes from one client to give
// to another, as HandshakeLimiter does, or counts by address, as ConnectionLimiter and
// CredentialLimiter do. A reservation of a limiter waits as long as it has to: CredentialLimiter gives one back that would wait too long. A semaphore does not tell how much of it is taken, and a limiter not how
// many events it has rejected, so Slots and LogLimiter count.
//
// # Locks
//
// Each type has a lock of its own, except ConnectionLimiter, whose owner guards it. They are taken with no other lock of this package, and
// nothing waits while one is held.
package admission
