// Package shared has a value and a counter that many clients read and set.
//
//	visits := shared.NewCounter(c, "/visits", shared.CounterConfig{})
//	n, err := visits.Add(ctx, 1)
//
// # Guarantees
//
//   - A Value has a sequence of revisions. Each write makes a new one, and is based on the one that its caller has
//     seen (TrySet, Update, Add, CompareAndSet) or on any (Set). Of two writes that are based on the same revision, one
//     fails or is computed again.
//   - A write is carried out at most once. If it returns an error, it was not carried out, unless
//     client.MayHaveHappened is true for the error.
//   - A read can be stale, because servers may lag behind each other. But a Client never reads a value that is older
//     than one it has already read or written. After Client.Sync, Get is up to date.
//   - A value does not belong to a session. It stays when its writers end.
//
// # Receipts
//
// A node does not show whose write made its present version. So each write is a multi that also sets a receipt: an
// ephemeral node of the session. If the connection breaks before the reply to a write has come, the version of the
// receipt shows whether the write was carried out, as long as the session lives. A Client has one receipt for each
// write that its Values and queues have under way at a time, 64 at most; more writes wait. Receipts stay for later
// writes to the same parent, whichever Value they are of. Above 64, the one that was not used for longest is deleted.
//
// With Config.NoReceipts a write is cheaper, and after a lost reply the package can only read the node again. If it is
// unchanged, the package sends the write again. If the next revision is the present one and differs from what was to be
// written, another client was faster. In all other cases client.MayHaveHappened is true for the error.
//
// Do not delete the node of a value that is in use. Its versions begin again, so a writer that has seen the old node
// can set the new one.
//
// # Layout
//
// The value is the data of one persistent node. Receipts are under a parent beside it. Curator's SharedValue and
// SharedCount and its DistributedAtomicLong and DistributedAtomicInteger have the same layout, and so has kazoo's
// Counter: see Encoding. Nodes on the way to it are created as containers, as Curator does. The node is created by the
// first write.
package shared
