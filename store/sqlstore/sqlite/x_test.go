package sqlite
import ("testing";"context";"time";ma2h "github.com/ma2h/ma2h-go")
func TestX(t *testing.T){
 s,err:=Open(t.Context(),Config{Path:t.TempDir()+"/a b?c#%d.db"}); if err!=nil{t.Fatal(err)}
 a:=ma2h.Act{Key:"k",Resolution:"r"}
 ctx:=context.Background()
 r,err:=s.Reserve(ctx,a,100*time.Millisecond,false); t.Log(r,err)
 r2,err:=s.Reserve(ctx,a,100*time.Millisecond,false); t.Log(r2,err)
 t.Log(s.Lookup(ctx,a))
 t.Log(s.Commit(ctx,a,r.Token), s.Commit(ctx,a,r.Token)); t.Log(s.Lookup(ctx,a))
 t.Log(s.ClaimJTI(ctx,"j",time.Second,time.Second)); t.Log(s.ClaimJTI(ctx,"j",time.Second,time.Second));t.Log(s.SettleJTI(ctx,"j",true)); t.Log(s.ClaimJTI(ctx,"j",time.Second,time.Second))
 t.Log(s.PutSubmit(ctx,ma2h.SubmitKey{"a","k"},[]byte("x")))
 t.Log(s.PutSubmit(ctx,ma2h.SubmitKey{"a","k"},[]byte("y")))
 t.Log(s.Clean(ctx))
}
func BenchmarkReserve(b *testing.B){
 s,_:=Open(b.Context(),Config{Path:b.TempDir()+"/a.db"})
 for b.Loop(){ if _,err:=s.Reserve(b.Context(),ma2h.Act{Key:time.Now().String()},time.Second,false);err!=nil{b.Fatal(err)}}
}
func BenchmarkEmpty(b *testing.B){
 s,_:=Open(b.Context(),Config{Path:b.TempDir()+"/a.db"})
 for b.Loop(){ tx,_:=s.db.Begin(); tx.Commit()}
}
func BenchmarkEmptyWrite(b *testing.B){
 s,_:=Open(b.Context(),Config{Path:b.TempDir()+"/a.db"})
 s.db.Exec("create table x(i integer primary key, v); insert into x values(1,1)")
 for b.Loop(){ tx,_:=s.db.Begin(); tx.Exec("update x set v=v+1"); tx.Commit()}
}
