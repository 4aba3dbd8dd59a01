// Package admission decides which work a server takes on, and which work waits or is rejected:
//
//   - SessionThrottle limits the sessions that are opened and resumed. Its tokens are a rate.Limiter.
//   - Slots limits concurrent work of one kind: TLS handshakes that compute, and sessions that are created. It is a
//     semaphore.Weighted.
//   - HandshakeLimiter limits TLS handshakes under way.
//   - ConnectionLimiter limits connections, in all and by address.
//   - CredentialLimiter slows addresses after wrong credentials. Each has a rate.Limiter.
//   - LogLimiter limits log lines that strangers can cause. It is a rate.Limiter.
//   - MemoryLimiter rejects writes that add data while the process is short of memory.
//
// # Beyond the libraries
//
// ZooKeeper's throttle adds tokens once per FillTime, so SessionThrottle rounds the time that it passes to
// the rate.Limiter down. It also decides the credit of resumed sessions and the early drop by chance (BLUE),
// which a rate.Limiter does not have. HandshakeLimiter takes a place from one client to give it to another.
// ConnectionLimiter and CredentialLimiter count by address. CredentialLimiter cancels a reservation that
// would wait too long. Slots and LogLimiter count what a semaphore and a limiter do not report.
//
// # Locks
//
// Each type has a lock of its own, except ConnectionLimiter, whose owner guards it. They are taken with no
// other lock of this package, and nothing waits while one is held.
package admission
