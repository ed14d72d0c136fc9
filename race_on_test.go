//go:build race

package ma2h

const raceEnabled = true
