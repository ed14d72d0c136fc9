//go:build race

package ma2h_test

const raceEnabled = true
