/** Arguments to try a tool with, before anybody has typed some. */
import { isObject, type Json, type JsonObject } from "./draft";

/** The JSON Schema that a row gives for a tool's arguments; null where it says nothing of it. */
export function describedIn(item: JsonObject | null, name: string): JsonObject | null {
  const tools = Array.isArray(item?.tools) ? item.tools : [];
  for (const tool of tools) {
    const described = isObject(tool) && isObject(tool.function) ? tool.function : tool;
    if (isObject(described) && described.name === name)
      return isObject(described.parameters) ? described.parameters : null;
  }
  return null;
}

/** What it asks for, each with the plainest value of its type: required ones, or all where none is. */
export function plainArguments(schema: JsonObject | null): JsonObject {
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const required =
    Array.isArray(schema?.required) && schema.required.length ? schema.required : Object.keys(properties);
  return Object.fromEntries(required.map((name) => [String(name), plain(properties[String(name)])]));
}

function plain(schema: Json | undefined): Json {
  if (!isObject(schema)) return "";
  if (schema.default !== undefined) return schema.default;
  if (Array.isArray(schema.enum)) return schema.enum[0] ?? null;
  switch (schema.type) {
    case "integer":
    case "number":
      return 1;
    case "boolean":
      return false;
    case "array":
      return [];
    case "object":
      return {};
    default:
      return "";
  }
}
