import java.util.List;
import static java.lang.Math.max;
import java.io.*;
class Cart extends Base {
    Cart() { super(1); }
    int total() {
        List<Integer> list = new java.util.ArrayList<>(new Source<Integer>());
        this.store.save(list);
        return max(list.size(), new Item().price());
    }
}
