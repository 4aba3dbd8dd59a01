package fence_test

import (
	"context"
	"database/sql"
	"fmt"

	"rollcall/client"
	"rollcall/client/fence"
)

func ExampleGuard() {
	var g fence.Guard
	ctx := context.Background()
	write := func(token client.Token, text string) {
		if err := g.Do(ctx, token, func() error { fmt.Println(text); return nil }); err != nil {
			fmt.Println(err)
		}
	}
	write(40, "the first holder writes")
	write(41, "the second holder writes")
	write(40, "the first holder writes, after a long pause")
	// Output:
	// the first holder writes
	// the second holder writes
	// fence: token 40 rejected: the store has seen a greater token: a later client has held the right (41)
}

// saveReport writes with the token of a right, in one transaction.
func saveReport(ctx context.Context, db *sql.DB, right *client.Right, text string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := (fence.SQL{}).Check(ctx, tx, "nightly", right.Token()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE report SET text = ?", text); err != nil {
		return err
	}
	return tx.Commit()
}

func ExampleSQL() {
	// func saveReport(ctx context.Context, db *sql.DB, right *client.Right, text string) error
	_ = saveReport
}
