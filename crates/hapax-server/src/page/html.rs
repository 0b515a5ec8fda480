use crate::app::Caller;

/// Text as it may stand in HTML, in attributes too.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

pub(super) fn layout(title: &str, caller: &Caller, body: &str) -> String {
    let whose = if caller.sees_all { "all tenants".to_owned() } else { escaped(caller.tenant()) };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"/page/style.css\">\
         <script src=\"/page/live.js\" defer></script></head>\
         <body><header><a class=\"name\" href=\"/\">Hapax</a> <span class=\"whose\">{whose}</span>\
         <span id=\"pulse\" class=\"pulse\" title=\"live when green\"></span>\
         <form class=\"find\" action=\"/page/operation\" method=\"get\">\
         <input name=\"id\" aria-label=\"Operation id\" placeholder=\"Operation id\" size=\"40\" \
         minlength=\"64\" maxlength=\"64\" required> <button>Explain</button></form></header>\
         <main>{body}</main></body></html>\n",
        title = escaped(title),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_caller_wrote_becomes_markup() {
        assert_eq!(escaped("<script>\"&'"), "&lt;script&gt;&quot;&amp;&#39;");
    }
}
