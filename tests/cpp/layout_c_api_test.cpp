// The C function that Python calls: its contract, and that no text can do harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

extern "C" int jaxator_layout(const char* operation, const char* const* arguments, int count, char* text, int capacity,
                              int* length);

namespace {

struct Answer {
  int status;
  std::string text;
};

Answer call(const std::string& operation, const std::vector<std::string>& arguments, int capacity = 1 << 20) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::vector<char> text(static_cast<size_t>(capacity) + 1, '#');
  int length = -1;
  const int status =
      jaxator_layout(operation.c_str(), pointers.data(), static_cast<int>(pointers.size()), text.data(), capacity, &length);
  EXPECT_EQ(text[static_cast<size_t>(capacity)], '#');
  EXPECT_GE(length, 0);
  return {status, std::string(text.data(), std::min<size_t>(static_cast<size_t>(length), static_cast<size_t>(capacity) - 1))};
}

TEST(LayoutCApi, AnswersAndErrors) {
  EXPECT_EQ(call("composition", {"(6,2):(8,2)", "(4,3):(3,1)"}).text, "((2,2),3):((24,2),8)");
  const Answer broken = call("composition", {"(4,8):(1,5)", "6:3"});
  EXPECT_EQ(broken.status, 1);
  EXPECT_EQ(broken.text, "composition: leaf 0: stride 3 and the left side's shape 4: neither divides the other");
  EXPECT_EQ(call("normalize", {std::string(2048, '(')}).status, 1);
  EXPECT_EQ(call("normalize", {std::string(1 << 20, '(')}).text, "normalize: a text of 1048576 characters is longer than 2048");
  EXPECT_EQ(call("composition", {"4:1"}).status, 2);
  EXPECT_EQ(call("compositions", {"4:1", "4:1"}).text, "no layout operation compositions of 2 arguments");
}

TEST(LayoutCApi, LongAnswersAreCutAndCounted) {
  const std::vector<std::string> arguments = {"((4,2),8):((2,1),8)", "", "", "4", "svg"};
  const std::string whole = call("draw", arguments).text;
  EXPECT_GT(whole.size(), 5000u);
  for (const int capacity : {1, 2, 100, 5000}) {
    const Answer cut = call("draw", arguments, capacity);
    EXPECT_EQ(cut.status, 0);
    EXPECT_EQ(cut.text, whole.substr(0, static_cast<size_t>(capacity) - 1));
  }
}

/// Texts of every kind with characters changed, dropped and repeated: an answer or an error, never anything else.
TEST(LayoutCApi, AnyTextIsAnsweredOrRefused) {
  const std::vector<std::string> texts = {"(4,8):(8,1)",
                                          "((4,2),8):((2,1),8)",
                                          "(?,?4{div=4}):(E0,2E1.0)",
                                          "S<3,4,3>",
                                          "16",
                                          "*",
                                          "S<1,0,1> o 0 o (2,4):(4,1)",
                                          "[4:1,*]",
                                          "[[2:1,*],4:2]",
                                          "(1,0)",
                                          "2:9223372036854775807",
                                          "(4,(2,2)):(-1,(0,3))",
                                          "gfx950",
                                          "sm_90",
                                          "x86-64",
                                          "read",
                                          "svg",
                                          "",
                                          "12:1"};
  const std::vector<std::pair<std::string, int>> operations = {{"normalize", 1},
                                                               {"size", 1},
                                                               {"cosize", 1},
                                                               {"compact", 1},
                                                               {"crd2idx", 2},
                                                               {"indices", 1},
                                                               {"composition", 2},
                                                               {"complement", 2},
                                                               {"coalesce", 2},
                                                               {"right_inverse", 1},
                                                               {"left_inverse", 1},
                                                               {"logical_divide", 2},
                                                               {"zipped_divide", 2},
                                                               {"tiled_divide", 2},
                                                               {"flat_divide", 2},
                                                               {"logical_product", 2},
                                                               {"zipped_product", 2},
                                                               {"tiled_product", 2},
                                                               {"flat_product", 2},
                                                               {"blocked_product", 2},
                                                               {"raked_product", 2},
                                                               {"tile_to_shape", 3},
                                                               {"make_ordered_layout", 2},
                                                               {"recast", 3},
                                                               {"cost", 5},
                                                               {"phases", 3},
                                                               {"propose_swizzle", 6},
                                                               {"draw", 5}};
  std::mt19937 random(1);
  const std::string alphabet = "()<>{}[]:,.*?-SEo 0123456789=div\xff";
  int answered = 0;
  for (int round = 0; round < 40000; round++) {
    const auto& [operation, count] = operations[random() % operations.size()];
    std::vector<std::string> arguments;
    for (int i = 0; i < count; i++) {
      std::string text = texts[random() % texts.size()];
      for (unsigned edits = random() % 3; edits > 0 && !text.empty(); edits--) {
        const size_t at = random() % text.size();
        const char other = alphabet[random() % alphabet.size()];
        if (random() % 3 == 0)
          text.erase(at, 1);
        else if (random() % 2 == 0)
          text[at] = other;
        else
          text.insert(at, 1, other);
      }
      arguments.push_back(text);
    }
    const Answer answer = call(operation, arguments, 256);
    ASSERT_TRUE(answer.status == 0 || answer.status == 1) << operation << ": " << answer.text;
    answered += answer.status == 0;
  }
  EXPECT_GT(answered, 1000);
}

}  // namespace
