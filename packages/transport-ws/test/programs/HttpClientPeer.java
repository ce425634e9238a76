import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Sends GET and POST as the default client of Java does: each offers h2c while the connection speaks HTTP/1.1. */
class HttpClientPeer {
  public static void main(String[] given) throws Exception {
    var client = HttpClient.newHttpClient();
    var uri = URI.create(given[0]);
    for (var body : new String[] {null, "hello", "x".repeat(200_000)}) {
      var request = HttpRequest.newBuilder(uri);
      if (body != null) request.POST(HttpRequest.BodyPublishers.ofString(body));
      var answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
      System.out.println(answer.version() + " " + answer.statusCode() + " " + answer.body());
    }
  }
}
