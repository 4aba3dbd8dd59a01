// Package queue has a queue whose elements stay until they are done, even if their takers end.
//
//	q := queue.New(c, "/app/jobs", queue.Config{})
//	_, err := q.Put(ctx, []byte("job"))
//	...
//	job, err := q.Take(ctx)
//	if err == nil && work(job.Data) == nil {
//		_, err = job.Done(ctx)
//	}
//
// # Guarantees
//
//   - Put puts an element once, although a reply is lost. Elements are given in the order of their priority, and within
//     one in the order in which they were put. Takers that work at the same time may finish in another order.
//   - A taken element has a lock: an ephemeral node of the taker. No other taker gets it while the lock is held. Done
//     deletes the element and the lock in one transaction.
//   - If the taker ends before Done, the element is given again: it is given at least once. Element.Attempt counts.
//   - Done carries out operations of the caller in the same transaction. Their effect happens exactly once for each
//     element, however often that was given.
//   - An Element is a client.Right: Held is exact at the moment of the call. Work that leaves effects outside of the
//     ensemble should check it, or pass on Token: an element that is given again has a greater one.
//   - A Put or Done that fails was not carried out, unless client.MayHaveHappened is true for its error: ctx or the
//     session has ended before the outcome was known.
//
// # Large queues
//
// ZooKeeper's servers return the names of all elements or none. So a Queue lists the parent's children, keeps the first
// names (Config.Batch), and takes those before it lists again. It keeps them for 5 s at most. A queue of a million
// elements has lists of 21 MB, and one of them serves 1,000 elements by default. An element of a higher priority, or
// one that is given again, appears only in the next list.
//
// The takers of one process should share a Queue, so that they have one batch. Takers of several Queues try the same
// names, and each name is a request in vain for all but one.
//
// A taker that finds nothing enters a line. Only the first taker in the line watches the elements and the locks, so a
// Put wakes one taker.
//
// # Layout
//
// The layout is that of Curator's DistributedQueue, or DistributedPriorityQueue with Config.Priorities, with a lock
// path. The parent has the persistent elements queue-<number>, or queue-1<priority><number> with eight hexadecimal
// digits, and 0 instead of 1 for a negative priority. Smaller priorities come first. The data are in Curator's form of
// one item; an element of Curator's can have more. The parent of the locks has an ephemeral node for each element that
// is taken, with the same name, and the containers line and receipts, which only this package uses. Takers of Curator
// must have the same lock path. Each take sets an element's data to the same data, so its version counts the attempts.
//
// The servers number at most 2^31 elements under a parent. After that, the order is lost, unless the servers of Rollcall
// are configured to go on (longSequentialNames). Delete the parent before that, when it is empty: the numbers then begin
// at 0 again.
package queue
