package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"rollcall/zk/jute"
)

const (
	followerBuffer = 256 << 10             // one read of a socket takes most batches
	dialPause      = 20 * time.Millisecond // between two attempts of the leader to reach a follower
	ackBuffer      = 64                    // bytes, of one for each batch
)

// follow takes the leader's connection and writes its batches, until ctx ends or the leader is lost.
func follow(ctx context.Context, listener net.Listener, file *file) error {
	conn, err := listener.Accept()
	if err != nil {
		return orNil(ctx, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReaderSize(conn, followerBuffer)
	var batch []byte
	for {
		if batch, err = jute.ReadFrame(in, batch, maxPendingBytes); err != nil {
			return orNil(ctx, fmt.Errorf("floor: the leader is lost: %w", err))
		}
		if err := file.write(batch); err != nil {
			return err
		}
		if _, err := conn.Write([]byte{1}); err != nil {
			return orNil(ctx, fmt.Errorf("floor: the leader is lost: %w", err))
		}
	}
}

// orNil returns err, or nil if ctx has ended, which is then the reason of the error.
func orNil(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// followers are the leader's connections to all followers.
type followers struct {
	conns []net.Conn
	acked chan acks
	count []int // batches that each has acknowledged
}

// acks are batches that a follower has on the disk.
type acks struct{ follower, n int }

func newFollowers(conns []net.Conn) *followers {
	return &followers{conns: conns, acked: make(chan acks, len(conns)), count: make([]int, len(conns))}
}

// dialAll connects to all followers, as soon as they listen. It returns an error if ctx ends before.
func dialAll(ctx context.Context, addrs []string) (conns []net.Conn, err error) {
	dialer := net.Dialer{KeepAlive: -1}
	for _, addr := range addrs {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		for err != nil {
			select {
			case <-ctx.Done():
				return conns, errors.Join(ctx.Err(), err)
			case <-time.After(dialPause):
			}
			conn, err = dialer.DialContext(ctx, "tcp", addr)
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// readAcks reads the acknowledgements of follower i until ctx ends or the follower is lost.
func (f *followers) readAcks(ctx context.Context, i int) error {
	buf := make([]byte, ackBuffer)
	for {
		n, err := f.conns[i].Read(buf)
		if err != nil {
			return orNil(ctx, fmt.Errorf("floor: follower %d is lost: %w", i+1, err))
		}
		select {
		case f.acked <- acks{i, n}:
		case <-ctx.Done():
			return nil
		}
	}
}

// send sends a batch to all.
func (f *followers) send(frame []byte) error {
	for i, conn := range f.conns {
		if _, err := conn.Write(frame); err != nil {
			return fmt.Errorf("floor: follower %d is lost: %w", i+1, err)
		}
	}
	return nil
}

// await waits until so many followers have the first n batches that they are a majority together with the leader.
func (f *followers) await(ctx context.Context, n int) error {
	for !f.majorityHas(n) {
		select {
		case a := <-f.acked:
			f.count[a.follower] += a.n
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (f *followers) majorityHas(n int) bool {
	have := 0
	for _, count := range f.count {
		if count >= n {
			have++
		}
	}
	return have >= (len(f.count)+1)/2
}
