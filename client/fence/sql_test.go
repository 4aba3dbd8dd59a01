package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"rollcall/client"
	"rollcall/client/fence"
)

// scriptedDB is a driver of database/sql for one transaction. It notes the statements and their arguments.
type scriptedDB struct {
	changed    int64  // rows that an update changes
	greatest   *int64 // the token that a query finds; nil: there is no row
	execError  error
	countError error // of the number of rows that were changed
	queryError error

	statements []string
}

func (db *scriptedDB) Connect(context.Context) (driver.Conn, error) { return db, nil }
func (db *scriptedDB) Driver() driver.Driver                        { return nil }
func (db *scriptedDB) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (db *scriptedDB) Begin() (driver.Tx, error)                    { return db, nil }
func (db *scriptedDB) Close() error                                 { return nil }
func (db *scriptedDB) Commit() error                                { return nil }
func (db *scriptedDB) Rollback() error                              { return nil }
func (db *scriptedDB) LastInsertId() (int64, error)                 { return 0, errors.ErrUnsupported }

func (db *scriptedDB) RowsAffected() (int64, error) { return db.changed, db.countError }
func (db *scriptedDB) Columns() []string            { return []string{"token"} }

func (db *scriptedDB) note(statement string, args []driver.NamedValue) {
	text := statement
	for _, arg := range args {
		text += fmt.Sprintf(", %v", arg.Value)
	}
	db.statements = append(db.statements, text)
}

func (db *scriptedDB) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	db.note(query, args)
	return db, db.execError
}

func (db *scriptedDB) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	db.note(query, args)
	return db, db.queryError
}

// Next implements driver.Rows for a query that finds one row at most.
func (db *scriptedDB) Next(row []driver.Value) error {
	if db.greatest == nil {
		return io.EOF
	}
	row[0], db.greatest = *db.greatest, nil
	return nil
}

// Check sends the statements with the placeholders of the database, and each failure is its error.
func TestSQLCheck(t *testing.T) {
	failed := errors.New("failed")
	greatest := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		name  string
		db    scriptedDB
		err   error
		reads bool // the greatest token
	}{
		{"accepted", scriptedDB{changed: 1}, nil, false},
		{"stale", scriptedDB{greatest: greatest(9)}, &fence.StaleError{Token: 7, Greatest: 9}, true},
		{"no row", scriptedDB{}, fence.ErrUnknownResource, true},
		{"update fails", scriptedDB{changed: 1, execError: failed}, failed, false},
		{"number of rows unknown", scriptedDB{changed: 1, countError: failed}, failed, false},
		{"query fails", scriptedDB{greatest: greatest(9), queryError: failed}, failed, true},
	} {
		for numbered, want := range map[bool][]string{
			false: {fence.CheckToken + ", 7, nightly, 7", fence.GreatestToken + ", nightly"},
			true:  {fence.CheckTokenNumbered + ", 7, nightly, 7", fence.GreatestTokenNumbered + ", nightly"},
		} {
			driver := tt.db
			db := sql.OpenDB(&driver)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = (fence.SQL{Numbered: numbered}).Check(t.Context(), tx, "nightly", 7)
			stale, isStale := errors.AsType[*fence.StaleError](tt.err)
			switch {
			case isStale:
				wantStale(t, err, stale.Token, stale.Greatest)
			case !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil):
				t.Errorf("%s: the error is %v, want %v", tt.name, err, tt.err)
			}
			if !tt.reads {
				want = want[:1]
			}
			if !reflect.DeepEqual(driver.statements, want) {
				t.Errorf("%s: the statements are %q, want %q", tt.name, driver.statements, want)
			}
			if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A token that is no positive number reaches no database.
func TestSQLRejectsInvalidTokens(t *testing.T) {
	for _, token := range []client.Token{0, -1} {
		if err := (fence.SQL{}).Check(t.Context(), nil, "nightly", token); !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", token, err)
		}
	}
}
