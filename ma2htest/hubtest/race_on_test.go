//go:build race

package hubtest_test

const raceDetector = true
