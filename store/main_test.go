package store_test

import (
	"fmt"
	"os"
	"testing"
)

// The other processes of these tests are copies of the test binary that play a
// role instead.
const roleEnv = "MA2H_TEST_ROLE"

var roles = map[string]func() error{
	"agent":   agentRole,
	"replica": replicaRole,
}

func TestMain(m *testing.M) {
	play, ok := roles[os.Getenv(roleEnv)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
