//go:build unix

// Command mutex holds a lock while it works, and stores the result in a node and in a file if the lock is still
// held then:
//
//	mutex h1:2181,h2:2181,h3:2181 /srv/result
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"rollcall/client"
	"rollcall/client/fence"
	"rollcall/client/lock"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(servers, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, servers, client.Config{Timeout: 4 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	if err := c.CreateAll(ctx, "/example/result", client.Persistent); err != nil {
		return err
	}
	right, err := lock.NewMutex(c, "/example/lock", lock.Config{}).Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = right.Release(ctx) }()
	fmt.Println("holds the lock with token", right.Token())
	result, err := work()
	if err != nil {
		return err
	}
	err = errors.Join(
		storeInNode(ctx, right, result),
		storeInFile(ctx, right, file, result))
	if err == nil {
		fmt.Println("stored the result")
	}
	return err
}

// work stands for something that takes time. It ends with a line on the standard input.
func work() ([]byte, error) {
	fmt.Println("works until you press Enter")
	return bufio.NewReader(os.Stdin).ReadBytes('\n')
}

func storeInNode(ctx context.Context, right *client.Right, result []byte) error {
	if _, err := right.Guard(ctx, client.SetOp("/example/result", result, client.AnyVersion)); err != nil {
		return fmt.Errorf("the node: %w", err)
	}
	return nil
}

func storeInFile(ctx context.Context, right *client.Right, file string, result []byte) error {
	if err := (fence.File{Path: file}).Write(ctx, right.Token(), result, 0o644); err != nil {
		return fmt.Errorf("the file: %w", err)
	}
	return nil
}
