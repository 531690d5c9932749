/* Calls the library in the first argument with the fault in the second one. */
public class Plant {
    static native int plant(int fault);

    public static void main(String[] words) {
        System.load(words[0]);
        System.out.println(plant(Integer.parseInt(words[1])));
    }
}
