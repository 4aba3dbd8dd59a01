package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"rollcall/client"
)

// These are the statements of SQL, in the form of MySQL and SQLite. They run as they are on every database that knows
// them, with its own placeholders.
const (
	// CreateTable creates the table of the greatest tokens.
	CreateTable = `CREATE TABLE fence (
	resource VARCHAR(255) NOT NULL PRIMARY KEY, token BIGINT NOT NULL, writes BIGINT NOT NULL)`

	// AddResource adds a resource, once, before the first write. Its parameter is the resource's name.
	AddResource = `INSERT INTO fence (resource, token, writes) VALUES (?, 0, 0)`

	// CheckToken records a token: if it changes one row, the token is accepted. It must be the first statement of the
	// transaction of the write, which commits only then. Its parameters are the token, the resource and the token again.
	// The row stays locked until the transaction ends. The number of writes makes databases that count changed rows,
	// such as MySQL, count the same token too.
	CheckToken = `UPDATE fence SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ?`

	// GreatestToken reads the token of a resource, for the text of an error.
	GreatestToken = `SELECT token FROM fence WHERE resource = ?`
)

// These are CheckToken and GreatestToken in the form of PostgreSQL.
const (
	CheckTokenNumbered    = `UPDATE fence SET token = $1, writes = writes + 1 WHERE resource = $2 AND token <= $3`
	GreatestTokenNumbered = `SELECT token FROM fence WHERE resource = $1`
)

// ErrUnknownResource means that the table has no row for a resource.
var ErrUnknownResource = errors.New("the table fence has no row for the resource: run fence.AddResource for it once")

// SQL checks tokens in the table fence of a database: see CreateTable. The zero value is ready for use.
type SQL struct {
	// Numbered makes the placeholders $1, $2 and so on, as PostgreSQL wants them. Otherwise they are question marks.
	Numbered bool
}

// Check records the token for a resource, as the first statement of the transaction of a write. If it returns an error,
// the caller must roll the transaction back. The error is a *StaleError if a greater token has been seen.
//
// The database's isolation must be at least read committed. A transaction of another token that has not ended makes
// Check wait.
func (s SQL) Check(ctx context.Context, tx *sql.Tx, resource string, token client.Token) error {
	if err := check(token, 0); err != nil {
		return err
	}
	update, read := CheckToken, GreatestToken
	if s.Numbered {
		update, read = CheckTokenNumbered, GreatestTokenNumbered
	}
	result, err := tx.ExecContext(ctx, update, int64(token), resource, int64(token))
	if err != nil {
		return fmt.Errorf("fence: resource %.100q: %w", resource, err)
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: resource %.100q: %w", resource, err)
	}
	if changed == 1 {
		return nil
	}
	var greatest int64
	err = tx.QueryRowContext(ctx, read, resource).Scan(&greatest)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknownResource
	}
	if err != nil {
		return fmt.Errorf("fence: resource %.100q: %w", resource, err)
	}
	return &StaleError{Token: token, Greatest: client.Token(greatest)}
}
