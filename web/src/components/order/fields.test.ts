import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ChoiceField } from "./fields";

test("what is ordered is chosen, also where it is registered no more", () => {
  const options = [{ value: "tool_1", label: "search" }];
  const shown = (value: string) =>
    renderToStaticMarkup(
      createElement(ChoiceField, { label: "Tool", path: "t", value, options, onChange: () => undefined }),
    );
  expect(shown("tool_1")).toContain('<option value="tool_1" selected="">search</option></select>');
  expect(shown("tool_2")).toContain(
    '<option value="tool_1">search</option><option value="tool_2" selected="">tool_2</option>',
  );
});
