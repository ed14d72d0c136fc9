package tiny

import "testing"

func TestMost(t *testing.T) {
	if Most("123") != nil || Most("1234") != errBound || Most("12345") != errBound {
		t.Error("Most")
	}
	if _, err := Checked("12345"); err != errBound {
		t.Error("Checked")
	}
}

func TestLeast(t *testing.T) {
	if Least(100) != true || Least(-100) != false {
		t.Error("Least")
	}
}

func TestBoth(t *testing.T) {
	if !Both(true, true) {
		t.Error("Both")
	}
}

func TestNamed(t *testing.T) {
	for s, want := range map[string]int{"one": 1, "eins": 1, "three": 5, "four": 4, "eleven": 5} {
		if n := Named(s); n != want {
			t.Error(s, n)
		}
	}
}

func TestFirst(t *testing.T) {
	a, b := make(chan int, 1), make(chan int)
	a <- 7
	if First(a, b) != 7 {
		t.Error("First")
	}
}
